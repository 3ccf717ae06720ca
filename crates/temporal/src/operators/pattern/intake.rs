//! Events on their way to an automaton: starts of lifetimes, grouped by key, those of one instant together.
//!
//! Invariants: an event is handed on when time has passed its instant, or at once if nobody asks what else
//! happens then; so what is handed on does not depend on how events came within an instant. `waiting` has the
//! events at `instant` that time has not passed. Events of a key are handed on in order of time, and those of
//! one instant in the order of their values.

use crate::batch::{Batch, Other};
use crate::checkpoint::SavedBatch;
use crate::groups::{Groups, KeyColumns};
use crate::held::Held;
use crate::key::encode_rows;
use crate::places;
use crate::runs::{leading, runs};
use crate::time::{BEGINNING, Kind, Time};
use arrow::array::{ArrayRef, BooleanArray, ListArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::{BooleanBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// What is done with events of one key at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Together {
    /// There are none, as the caller vouches: each event is handed on at once.
    Absent,
    /// One after another, in the order of their values.
    Ordered,
    /// They are one blank event, which satisfies nothing.
    Blank,
    /// They are one list.
    Listed,
}

/// Events in the order in which an automaton takes them.
#[derive(Debug)]
pub(crate) struct Events {
    pub times: ScalarBuffer<i64>,
    /// The columns of events, or of lists of them.
    pub rows: RecordBatch,
    pub groups: Vec<u32>,
    /// Which events satisfy nothing; none: all may satisfy something.
    pub blank: Option<BooleanBuffer>,
}

/// How often a key came at an instant, and where among its events first.
#[derive(Debug, Clone, Copy, Default)]
struct Stamp {
    instant: u64,
    count: u32,
    first: u32,
}

/// See the module.
pub(crate) struct Intake {
    key: Vec<usize>,
    types: Vec<DataType>,
    together: Together,
    /// The schema of events as the automaton sees them.
    seen: SchemaRef,
    groups: Groups,
    waiting: Vec<Batch>,
    instant: Time,
    stamps: Vec<Stamp>,
    /// The number of the last instant that was looked at.
    instants: u64,
}

/// What an intake has in a checkpoint.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedIntake {
    groups: Groups,
    waiting: Vec<SavedBatch>,
    instant: Time,
}

impl Intake {
    /// Groups events of these columns by some of them; the automaton sees `seen`.
    pub fn new(input: &Schema, key: Vec<usize>, together: Together, seen: Vec<FieldRef>) -> Intake {
        let types: Vec<DataType> = key.iter().map(|&c| input.field(c).data_type().clone()).collect();
        Intake {
            groups: Groups::new(&types),
            types,
            key,
            together,
            seen: Arc::new(Schema::new(seen)),
            waiting: Vec::new(),
            instant: BEGINNING,
            stamps: Vec::new(),
            instants: 0,
        }
    }

    /// The key columns of these keys.
    pub fn key_columns(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut columns = KeyColumns::new(&self.types);
        self.groups.append(groups, &mut columns);
        columns.finish(&self.types)
    }

    /// The events that are not complete.
    pub fn held(&self) -> Held {
        Held::batches(&self.waiting)
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.groups.len()
    }

    /// One more than the largest number of a key.
    pub fn capacity(&self) -> usize {
        self.groups.capacity()
    }

    /// Forgets keys; the numbers of events that were handed on mean nothing afterwards.
    pub fn forget(&mut self, is_gone: impl Fn(u32) -> bool) {
        self.groups.remove_all(is_gone);
    }

    /// Takes rows, and hands on the events that are complete.
    pub fn push(&mut self, batch: Batch, out: &mut Vec<Events>) -> Result<()> {
        let batch = starts(batch.compact()?)?;
        let (Some(&first), Some(&last)) = (batch.sync.first(), batch.sync.last()) else { return Ok(()) };
        if self.together == Together::Absent {
            out.push(self.events(batch)?);
            return Ok(());
        }
        if first > self.instant {
            self.hand_on(out)?;
        }
        let mut from = 0;
        if !self.waiting.is_empty() && last > self.instant {
            from = leading(&batch.sync, 1, |&time| time <= self.instant);
            self.waiting.push(batch.slice(0, from));
            self.hand_on(out)?;
        }
        let tail = from + leading(&batch.sync[from..], batch.len(), |&time| time < last);
        if tail > from {
            out.push(self.events(batch.slice(from, tail - from))?);
        }
        self.instant = last;
        self.waiting.push(detached(&batch, tail)?);
        Ok(())
    }

    /// Time has come to `time`: hands on the events before it.
    pub fn pass(&mut self, time: Time, out: &mut Vec<Events>) -> Result<()> {
        if time > self.instant { self.hand_on(out) } else { Ok(()) }
    }

    /// Hands on what waits.
    fn hand_on(&mut self, out: &mut Vec<Events>) -> Result<()> {
        if let Some(batch) = joined(&std::mem::take(&mut self.waiting))? {
            out.push(self.events(batch)?);
        }
        Ok(())
    }

    fn events(&mut self, mut batch: Batch) -> Result<Events> {
        let mut groups = Vec::new();
        let key = batch.key(&self.key)?;
        self.groups.intern(&key, 0..batch.len(), &mut groups)?;
        let crowded = match self.together {
            Together::Absent => Vec::new(),
            _ => self.crowded(&batch.sync, &groups),
        };
        let order = match crowded.is_empty() {
            true => None,
            false => Some(self.order(&batch, &groups, &crowded)?),
        };
        if let Some(order) = &order {
            batch = batch.take(&UInt32Array::from(order.clone()))?;
            groups = order.iter().map(|&row| groups[row as usize]).collect();
        }
        match self.together {
            Together::Listed => self.lists(batch, groups),
            Together::Blank if order.is_some() => {
                let (firsts, offsets) = instants(&batch.sync, &groups);
                let blank = offsets.windows(2).map(|pair| pair[1] - pair[0] > 1).collect();
                let groups = firsts.iter().map(|&row| groups[row as usize]).collect();
                let Batch { sync: times, rows, .. } = batch.take(&UInt32Array::from(firsts))?;
                Ok(Events { times, rows, groups, blank: Some(blank) })
            }
            _ => Ok(Events { times: batch.sync, rows: batch.rows, groups, blank: None }),
        }
    }

    /// The instants at which a key has several events.
    fn crowded(&mut self, times: &[Time], groups: &[u32]) -> Vec<Range<usize>> {
        let capacity = self.groups.capacity().max(self.stamps.len());
        self.stamps.resize(capacity, Stamp::default());
        let mut crowded = Vec::new();
        for run in runs(times) {
            if run.len() == 1 {
                continue;
            }
            self.instants += 1;
            let mut several = false;
            for &group in &groups[run.clone()] {
                let stamp = &mut self.stamps[group as usize];
                several |= stamp.instant == self.instants;
                stamp.instant = self.instants;
            }
            if several {
                crowded.push(run);
            }
        }
        crowded
    }

    /// The order of rows in which those of a key at one instant are together, by their values.
    fn order(&mut self, batch: &Batch, groups: &[u32], crowded: &[Range<usize>]) -> Result<Vec<u32>> {
        let mut firsts = vec![0; batch.len()];
        let mut several = Vec::new();
        for run in crowded {
            self.instants += 1;
            for row in run.clone() {
                let stamp = &mut self.stamps[groups[row] as usize];
                if stamp.instant != self.instants {
                    *stamp = Stamp { instant: self.instants, count: 0, first: row as u32 };
                }
                stamp.count += 1;
                firsts[row] = stamp.first;
            }
            let counts = |row: &usize| self.stamps[groups[*row] as usize].count > 1;
            several.extend(run.clone().filter(counts).map(|row| row as u32));
        }
        let ranks = ranks(batch, several)?;
        let mut order: Vec<u32> = (0..batch.len() as u32).collect();
        for run in crowded {
            order[run.clone()].sort_by_key(|&row| (firsts[row as usize], ranks[row as usize]));
        }
        Ok(order)
    }

    /// Of rows in order: a list for each key at each instant.
    fn lists(&self, batch: Batch, groups: Vec<u32>) -> Result<Events> {
        let (firsts, offsets) = instants(&batch.sync, &groups);
        let count = firsts.len();
        let offsets = OffsetBuffer::new(offsets.into());
        let lists = self.seen.fields().iter().zip(batch.rows.columns()).map(|(field, values)| {
            let DataType::List(item) = field.data_type() else { return Ok(values.clone()) };
            Ok(Arc::new(ListArray::try_new(item.clone(), offsets.clone(), values.clone(), None)?) as ArrayRef)
        });
        let lists = lists.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let rows = RecordBatch::try_new_with_options(self.seen.clone(), lists, &options)?;
        let groups = firsts.iter().map(|&row| groups[row as usize]).collect();
        let times: Vec<Time> = firsts.iter().map(|&row| batch.sync[row as usize]).collect();
        Ok(Events { times: times.into(), rows, groups, blank: None })
    }

    pub fn save(&self) -> Result<SavedIntake> {
        let waiting = joined(&self.waiting)?;
        let waiting = waiting.iter().map(SavedBatch::of).collect::<Result<_>>()?;
        Ok(SavedIntake { groups: self.groups.clone(), waiting, instant: self.instant })
    }

    pub fn restore(&mut self, saved: SavedIntake) -> Result<()> {
        self.groups = saved.groups;
        self.waiting = saved.waiting.into_iter().map(SavedBatch::batch).collect::<Result<_>>()?;
        self.instant = saved.instant;
        self.stamps.clear();
        Ok(())
    }
}

/// The rows at which a lifetime starts. An end edge says nothing that an automaton asks for.
fn starts(mut batch: Batch) -> Result<Batch> {
    let all = match &batch.other {
        Other::Open => true,
        Other::After(ticks) => *ticks > 0,
        Other::Column(other) => {
            batch.sync.iter().zip(other).fold(true, |all, (sync, other)| all & (other > sync))
        }
    };
    if all {
        return Ok(batch);
    }
    let starts = (0..batch.len()).map(|row| Some(batch.kind_at(row) != Kind::End));
    batch.retain(&starts.collect::<BooleanArray>());
    batch.compact()
}

/// The batch from a row on, without the memory of the rows before it if they are most of it.
fn detached(batch: &Batch, from: usize) -> Result<Batch> {
    let rest = batch.slice(from, batch.len() - from);
    match rest.len() * 2 < batch.len() {
        true => rest.take(&UInt32Array::from_iter_values(0..rest.len() as u32)),
        false => Ok(rest),
    }
}

/// The batches, one after another, as one; none: there are none. Only starts count, so how long rows live is
/// dropped.
fn joined(batches: &[Batch]) -> Result<Option<Batch>> {
    match batches {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [first, ..] => {
            let rows = concat_batches(first.rows.schema_ref(), batches.iter().map(|batch| &batch.rows))?;
            let sync: Vec<Time> = batches.iter().flat_map(|batch| batch.sync.iter().copied()).collect();
            Ok(Some(Batch::new(sync.into(), Other::Open, rows)))
        }
    }
}

/// For each row the place of its values among those of these rows, in their order; 0 for others.
fn ranks(batch: &Batch, rows: Vec<u32>) -> Result<Vec<u32>> {
    let mut ranks = vec![0; batch.len()];
    if batch.rows.num_columns() == 0 {
        return Ok(ranks);
    }
    let values = places::take(&batch.rows, &UInt32Array::from(rows.clone()))?;
    let encoded = encode_rows(values.columns())?;
    let mut sorted: Vec<usize> = (0..rows.len()).collect();
    sorted.sort_by_key(|&place| encoded.value(place));
    for (rank, place) in (0..).zip(sorted) {
        ranks[rows[place] as usize] = rank;
    }
    Ok(ranks)
}

/// Of rows of which those of a key at one instant are together: the first of each such, and their offsets.
fn instants(times: &[Time], groups: &[u32]) -> (Vec<u32>, Vec<i32>) {
    let (mut firsts, mut offsets) = (Vec::new(), Vec::new());
    for row in 0..times.len() {
        if row == 0 || times[row] != times[row - 1] || groups[row] != groups[row - 1] {
            firsts.push(row as u32);
            offsets.push(row as i32);
        }
    }
    offsets.push(times.len() as i32);
    (firsts, offsets)
}
