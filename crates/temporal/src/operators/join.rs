//! The temporal inner equi-join: a symmetric hash join over lifetimes (trill.txt §5.2.3).
//!
//! Two rows of one key are joined while both are alive: the result lives over the intersection of their lifetimes. If
//! both ends are known it is an interval; else it is told as a start edge, and ended when the first of the two ends.
//!
//! Invariants: a pair was told as a start edge exactly if one of its rows was without a known end. The rows that start
//! at an instant are ranked on each side by arrival (an entry's note). What is told of an instant has one order, which
//! does not depend on which side came first:
//!
//! 1. ends that were known before;
//! 2. pairs of rows with known ends, by the later rank of the two. Nothing can take such a pair back, so those of a rank
//!    are told as soon as both sides have come to it, without waiting for time to pass;
//! 3. when time has passed the instant: the ends that end edges brought, then pairs with a row without a known end.

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
    nulls_equal: bool,
    schema: SchemaRef,
    merge: TimeMerge,
    groups: Option<Groups>,
    sides: [Synopsis; 2],
    now: Time,
    /// The rows that started now, by rank.
    arrived: [Vec<EntryId>; 2],
    /// The rank up to which rows with known ends have been joined.
    joined: usize,
    /// How many rows without a known end are alive, those that end now included.
    open: [usize; 2],
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
            nulls_equal: false,
            schema: Arc::new(Schema::new(fields)),
            merge: TimeMerge::eager(2),
            groups: None,
            sides: Default::default(),
            now: BEGINNING,
            arrived: Default::default(),
            joined: 0,
            open: [0, 0],
            emptied: Vec::new(),
            numbers: Vec::new(),
            pairs: Pairs::default(),
        }
    }

    /// The same, but a null equals a null.
    pub fn nulls_equal(self) -> Join {
        Join { nulls_equal: true, ..self }
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
        let nulls = if self.nulls_equal { None } else { Key::nulls(&batch.rows, &self.keys[side]) };
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
            self.join_known(self.arrived[0].len().min(self.arrived[1].len()));
        }
        Ok(())
    }

    fn row(&mut self, side: usize, batch: &Batch, row: usize, group: u32, kept: u32) {
        let (sync, other) = (batch.sync[row], batch.other_at(row));
        match Kind::of(sync, other) {
            Kind::End => match self.sides[side].open_edge(group, other, &batch.rows, row) {
                Some(id) => self.sides[side].close(id, sync),
                None => self.emptied.push(group),
            },
            _ => {
                let rank = self.arrived[side].len() as Time;
                let id = self.sides[side].insert(group, (kept, row as u32), sync, other, rank);
                self.arrived[side].push(id);
                self.open[side] += (other == INFINITY) as usize;
            }
        }
    }

    /// A row ends now: so do the pairs told as start edges that it is in. `was_open`: its end was not known before.
    fn retire(&mut self, side: usize, id: EntryId, was_open: bool) {
        let Join { sides, pairs, now, .. } = self;
        let entry = sides[side].get(id);
        if was_open || self.open[1 - side] > 0 {
            for (_, partner) in sides[1 - side].of(entry.group) {
                // Partners that arrived at this very instant have not been joined with it.
                if partner.start < *now && (was_open || partner.end == INFINITY) {
                    pairs.push(*now, entry.start.max(partner.start), side, entry.row, partner.row);
                }
            }
        }
        self.open[side] -= was_open as usize;
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
            self.retire_all(false);
        }
    }

    /// Retires the rows that end now.
    fn retire_all(&mut self, were_open: bool) {
        for side in [0, 1] {
            while let Some(id) = self.sides[side].ending_at(self.now) {
                self.retire(side, id, were_open);
            }
        }
    }

    /// Joins the rows with known ends that started now, up to a rank.
    fn join_known(&mut self, rank: usize) {
        for rank in self.joined..rank {
            self.meet(0, rank, true);
            self.meet(1, rank, true);
        }
        self.joined = self.joined.max(rank);
    }

    /// Joins a row that started now with the rows that were there and those of lower rank; of two of one rank, the right
    /// one looks. `known`: with both ends known, else with one that is not.
    fn meet(&mut self, side: usize, rank: usize, known: bool) {
        let Join { sides, pairs, arrived, open, now, .. } = self;
        let Some(&id) = arrived[side].get(rank) else { return };
        let (entry, others) = (sides[side].get(id), &sides[1 - side]);
        let open_others = open[1 - side];
        let possible = match (known, entry.end < INFINITY) {
            (true, true) => others.count() > open_others,
            (false, true) => open_others > 0,
            (known, false) => !known,
        };
        if !possible {
            return;
        }
        let limit = (rank + side) as Time;
        for (_, partner) in others.of(entry.group) {
            let end = entry.end.max(partner.end);
            // A partner that an end edge of this instant has closed was open: it is none of those with known ends.
            if (partner.start < *now || partner.note < limit)
                && (end < INFINITY) == known
                && partner.end > *now
            {
                let other = if known { entry.end.min(partner.end) } else { INFINITY };
                pairs.push(*now, other, side, entry.row, partner.row);
            }
        }
    }

    /// Time passes `now`: all that happened at it is told.
    fn commit(&mut self) {
        let ranks = self.arrived[0].len().max(self.arrived[1].len());
        self.join_known(ranks);
        self.retire_all(true);
        for rank in 0..ranks {
            self.meet(0, rank, false);
            self.meet(1, rank, false);
        }
        self.arrived.iter_mut().for_each(Vec::clear);
        self.joined = 0;
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
        let progress = (self.now, self.joined, self.open);
        encode(&(self.merge.save()?, &self.groups, progress, &self.emptied, sides))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let merge;
        let sides: (SavedSynopsis, SavedSynopsis);
        (merge, self.groups, (self.now, self.joined, self.open), self.emptied, sides) = decode(state)?;
        self.merge = TimeMerge::restore(merge)?;
        self.sides = [Synopsis::restore(sides.0)?, Synopsis::restore(sides.1)?];
        self.arrived = [self.sides[0].started_at(self.now), self.sides[1].started_at(self.now)];
        Ok(())
    }
}
