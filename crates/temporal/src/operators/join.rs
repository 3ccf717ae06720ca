//! The temporal inner equi-join: a symmetric hash join over lifetimes (trill.txt §5.2.3).
//!
//! Two rows of one key are joined while both are alive: the result lives over the intersection of their lifetimes. If
//! both ends are known it is an interval; else it is told as a start edge, and ended when the first of the two ends.
//!
//! Invariants: within an instant end edges take effect before rows that start at it are joined, so these wait in
//! `arrived` until time has passed the instant. A pair was told as a start edge exactly if one of its rows is still
//! without a known end.

use crate::batch::{Batch, Message, Other};
use crate::groups::Groups;
use crate::key::Key;
use crate::merge::TimeMerge;
use crate::operator::{Operator, decode, encode};
use crate::operators::runs::runs;
use crate::synopsis::{EntryId, RowRef, SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::Result;
use std::sync::Arc;

/// Joins two streams on their keys.
pub struct Join {
    keys: [Vec<usize>; 2],
    schema: SchemaRef,
    merge: TimeMerge,
    groups: Option<Groups>,
    sides: [Synopsis; 2],
    now: Time,
    arrived: [Vec<EntryId>; 2],
    /// Groups that may have lost their last row.
    emptied: Vec<u32>,
    numbers: Vec<u32>,
    pairs: Pairs,
}

/// Joined rows on their way out.
#[derive(Debug, Default)]
struct Pairs {
    sync: Vec<Time>,
    other: Vec<Time>,
    rows: [Vec<RowRef>; 2],
}

impl Pairs {
    fn push(&mut self, sync: Time, other: Time, side: usize, row: RowRef, partner: RowRef) {
        self.sync.push(sync);
        self.other.push(other);
        self.rows[side].push(row);
        self.rows[1 - side].push(partner);
    }
}

impl Join {
    /// Joins rows whose key columns are equal, pairwise; without key columns, all rows. The result has the left
    /// columns, then the right ones.
    pub fn new(left: SchemaRef, right: SchemaRef, left_key: Vec<usize>, right_key: Vec<usize>) -> Join {
        let fields: Vec<_> = left.fields().iter().chain(right.fields()).cloned().collect();
        Join {
            keys: [left_key, right_key],
            schema: Arc::new(Schema::new(fields)),
            merge: TimeMerge::new(2),
            groups: None,
            sides: Default::default(),
            now: BEGINNING,
            arrived: Default::default(),
            emptied: Vec::new(),
            numbers: Vec::new(),
            pairs: Pairs::default(),
        }
    }

    /// The left columns, then the right ones.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn batch(&mut self, side: usize, batch: Batch) -> Result<()> {
        let mut batch = batch.compact()?;
        let key = batch.key(&self.keys[side])?;
        let types: Vec<DataType> =
            self.keys[side].iter().map(|&c| batch.rows.column(c).data_type().clone()).collect();
        let nulls = Key::nulls(&batch.rows, &self.keys[side]);
        let kept = self.sides[side].keep(batch.rows.clone());
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start]);
            let mut numbers = std::mem::take(&mut self.numbers);
            numbers.clear();
            self.groups.get_or_insert_with(|| Groups::new(&types)).intern(&key, run.clone(), &mut numbers)?;
            for (row, &group) in run.zip(&numbers) {
                match nulls.as_ref().is_none_or(|n| n.is_valid(row)) {
                    true => self.row(side, &batch, row, group, kept),
                    // A null key equals nothing.
                    false => self.emptied.push(group),
                }
            }
            self.numbers = numbers;
        }
        Ok(())
    }

    fn row(&mut self, side: usize, batch: &Batch, row: usize, group: u32, kept: u32) {
        let (sync, other) = (batch.sync[row], batch.other_at(row));
        match Kind::of(sync, other) {
            Kind::End => match self.sides[side].open_edge(group, other, &batch.rows, row) {
                Some(id) => self.retire(side, id, sync),
                None => self.emptied.push(group),
            },
            _ => {
                let id = self.sides[side].insert(group, (kept, row as u32), sync, other, 0);
                self.arrived[side].push(id);
            }
        }
    }

    /// A row ends at `time`: so do the pairs told as start edges that it is in.
    fn retire(&mut self, side: usize, id: EntryId, time: Time) {
        let Join { sides, pairs, .. } = self;
        let entry = sides[side].get(id);
        for (_, partner) in sides[1 - side].of(entry.group) {
            // Partners that arrived at this very instant have not been joined with it.
            if partner.start < time && (entry.end == INFINITY || partner.end == INFINITY) {
                pairs.push(time, entry.start.max(partner.start), side, entry.row, partner.row);
            }
        }
        self.emptied.push(entry.group);
        self.sides[side].remove(id);
    }

    /// The next instant, up to `time`, at which a row ends.
    fn next_end(&mut self, time: Time) -> Time {
        let end = |s: &mut Synopsis| s.next_end().unwrap_or(INFINITY);
        let [left, right] = &mut self.sides;
        end(left).min(end(right)).min(time)
    }

    fn advance(&mut self, time: Time) {
        while self.now < time {
            self.commit();
            self.now = self.next_end(time);
            for side in [0, 1] {
                while let Some(id) = self.sides[side].ending_at(self.now) {
                    self.retire(side, id, self.now);
                }
            }
        }
    }

    /// Time passes `now`: joins the rows that started at it with all that are alive.
    fn commit(&mut self) {
        let now = self.now;
        for side in [0, 1] {
            for id in std::mem::take(&mut self.arrived[side]) {
                let Join { sides, pairs, .. } = self;
                let entry = sides[side].get(id);
                for (_, partner) in sides[1 - side].of(entry.group) {
                    // Two rows of this instant meet once: when the right one looks.
                    if side == 0 && partner.start == now {
                        continue;
                    }
                    let known = entry.end < INFINITY && partner.end < INFINITY;
                    let other = if known { entry.end.min(partner.end) } else { INFINITY };
                    pairs.push(now, other, side, entry.row, partner.row);
                }
            }
        }
        for group in std::mem::take(&mut self.emptied) {
            if self.sides.iter().all(|s| s.is_empty(group))
                && let Some(groups) = &mut self.groups
            {
                groups.remove(group);
            }
        }
    }

    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        if !self.pairs.sync.is_empty() {
            let Pairs { sync, other, rows } = std::mem::take(&mut self.pairs);
            let mut columns = self.sides[0].gather(&rows[0])?.columns().to_vec();
            columns.extend_from_slice(self.sides[1].gather(&rows[1])?.columns());
            let options = RecordBatchOptions::new().with_row_count(Some(sync.len()));
            let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
            out.push(Message::Batch(Batch::new(sync.into(), Other::Column(other.into()), rows)));
        }
        self.sides.iter_mut().try_for_each(Synopsis::tidy)
    }
}

impl Operator for Join {
    fn inputs(&self) -> usize {
        2
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        self.merge.push(input, message);
        while let Some((side, message)) = self.merge.next() {
            match message {
                Message::Batch(batch) => self.batch(side, batch)?,
                Message::Punctuation(time) => {
                    self.advance(time);
                    self.flush(out)?;
                    out.push(Message::Punctuation(time));
                }
            }
        }
        self.flush(out)
    }

    fn save(&self) -> Result<Vec<u8>> {
        let sides = (self.sides[0].save()?, self.sides[1].save()?);
        encode(&(self.merge.save()?, &self.groups, self.now, &self.emptied, sides))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let merge;
        let sides: (SavedSynopsis, SavedSynopsis);
        (merge, self.groups, self.now, self.emptied, sides) = decode(state)?;
        self.merge = TimeMerge::restore(merge)?;
        self.sides = [Synopsis::restore(sides.0)?, Synopsis::restore(sides.1)?];
        self.arrived = [self.sides[0].started_at(self.now), self.sides[1].started_at(self.now)];
        Ok(())
    }
}
