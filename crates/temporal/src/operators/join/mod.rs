//! The temporal inner equi-join: a symmetric hash join over lifetimes (trill.txt §5.2.3).
//!
//! Two rows of one key are joined while both are alive: the result lives over the intersection of their
//! lifetimes. If both ends are known it is an interval; else it is emitted as a start edge, and ended when
//! the first of the two ends.
//!
//! Invariants: a pair was emitted as a start edge exactly if one of its rows was without a known end. The
//! synopses hold the rows that started before the present; those that start now are ranked on each side by
//! arrival, and go to the synopsis of their side when time passes. A row that has ended by the next instant
//! never does, unless a pair that it is in has to be ended. What is emitted of an instant has one order,
//! which does not depend on which side came first:
//!
//! 1. ends that were known before;
//! 2. pairs of rows with known ends, by the later rank of the two. Nothing can take such a pair back, so
//!    those of a rank are emitted as soon as both sides have come to it, without waiting for time to pass;
//! 3. when time has passed the instant: the ends that end edges brought, then pairs with a row without a
//!    known end.

mod arrivals;

use crate::batch::{Batch, Message, Other};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::keyed_inputs::{Arrival, KeyedInputs, Pairing, SavedInputs};
use crate::synopsis::{EntryId, RowRef, SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrivals::{Arrivals, SavedArrivals};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use std::sync::Arc;

/// Joins two streams on their keys.
///
/// It holds the rows alive on both sides. A row that comes takes time linear in the rows of its key on the
/// other side, and so does one that ends if there are start edges.
pub struct Join {
    inputs: KeyedInputs,
    state: State,
}

#[derive(Debug)]
struct State {
    schema: SchemaRef,
    sides: [Synopsis; 2],
    /// The present: all that happened before it has been emitted.
    now: Time,
    /// The rows that started now, by rank.
    arrived: [Arrivals; 2],
    /// The rank up to which rows with known ends have been joined.
    joined: usize,
    /// How many rows without a known end are alive, those that end now included.
    open: [usize; 2],
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
    /// A pair of a row of `side` and one of the other side, with these times.
    fn push(&mut self, sync: Time, other: Time, side: usize, row: RowRef, partner: RowRef) {
        self.sync.push(sync);
        self.other.push(other);
        self.rows[side].push(row);
        self.rows[1 - side].push(partner);
    }
}

impl Join {
    /// Joins rows whose key columns are equal, pairwise; without key columns, all rows. The result has the
    /// left columns, then the right ones.
    pub fn new(left: SchemaRef, right: SchemaRef, left_key: Vec<usize>, right_key: Vec<usize>) -> Join {
        let fields: Vec<_> = left.fields().iter().chain(right.fields()).cloned().collect();
        let state = State {
            schema: Arc::new(Schema::new(fields)),
            sides: Default::default(),
            now: BEGINNING,
            arrived: Default::default(),
            joined: 0,
            open: [0, 0],
            pairs: Pairs::default(),
        };
        Join { inputs: KeyedInputs::new(left_key, right_key).eager(), state }
    }

    /// The same, but a null equals a null.
    pub fn nulls_equal(self) -> Join {
        Join { inputs: self.inputs.nulls_equal(), ..self }
    }

    /// The left columns, then the right ones.
    pub fn schema(&self) -> &SchemaRef {
        &self.state.schema
    }
}

impl Pairing for State {
    fn synopsis(&mut self, side: usize) -> Option<&mut Synopsis> {
        Some(&mut self.sides[side])
    }

    fn expect(&mut self, groups: &[u32], capacity: usize) {
        self.sides.iter_mut().for_each(|side| side.expect(groups, capacity));
    }

    fn arrive(&mut self, row: Arrival) {
        let (side, other) = (row.side, row.other());
        match row.kind() {
            // A null key equals nothing.
            _ if !row.matches => {}
            Kind::End => {
                let open = self.sides[side].open_edge(row.group, other, &row.batch.rows, row.row);
                open.into_iter().for_each(|id| self.sides[side].close(id, self.now));
            }
            _ => {
                self.arrived[side].push(row.group, other, row.place, &mut self.sides[side]);
                self.open[side] += (other == INFINITY) as usize;
            }
        }
    }

    fn arrived(&mut self) {
        self.join_closed(self.arrived[0].len().min(self.arrived[1].len()));
    }

    fn advance(&mut self, time: Time) {
        while self.now < time {
            self.commit(time);
            self.now = self.next_end(time);
            self.retire_all(false);
        }
    }

    fn is_empty(&self, group: u32) -> bool {
        let has_arrived = |rows: &Arrivals| rows.of(group, rows.len()).next().is_some();
        self.sides.iter().all(|rows| rows.is_empty(group)) && !self.arrived.iter().any(has_arrived)
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

impl State {
    /// A row ends now: so do the pairs emitted as start edges that it is in. `was_open`: its end was not
    /// known before.
    fn retire(&mut self, side: usize, id: EntryId, was_open: bool) {
        let State { sides, pairs, now, .. } = self;
        let entry = sides[side].get(id);
        if was_open || self.open[1 - side] > 0 {
            for (_, partner) in sides[1 - side].of(id.group) {
                if was_open || partner.end == INFINITY {
                    pairs.push(*now, entry.start.max(partner.start), side, entry.row, partner.row);
                }
            }
        }
        self.open[side] -= was_open as usize;
        self.sides[side].remove(id);
    }

    /// The next instant, up to `time`, at which a row ends.
    fn next_end(&mut self, time: Time) -> Time {
        let end = |s: &mut Synopsis| s.next_end().unwrap_or(INFINITY);
        let [left, right] = &mut self.sides;
        end(left).min(end(right)).min(time)
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
    fn join_closed(&mut self, rank: usize) {
        for rank in self.joined..rank {
            self.meet(0, rank, true);
            self.meet(1, rank, true);
        }
        self.joined = self.joined.max(rank);
    }

    /// Joins a row that started now with the rows that were there and those of lower rank; of two of one
    /// rank, the right one looks. `closed`: with both ends known, else with one that is not.
    fn meet(&mut self, side: usize, rank: usize, closed: bool) {
        let State { sides, pairs, arrived, open, now, .. } = self;
        let Some(row) = arrived[side].get(rank) else { return };
        let (older, others) = (&sides[1 - side], &arrived[1 - side]);
        let open_others = open[1 - side];
        let possible = match (closed, row.end < INFINITY) {
            (true, true) => older.count() + others.len() > open_others,
            (false, true) => open_others > 0,
            (closed, false) => !closed,
        };
        if !possible {
            return;
        }
        let older = older.of(row.group).map(|(_, partner)| (partner.end, partner.row));
        let others = others.of(row.group, rank + side).map(|partner| (partner.end, partner.row));
        for (end, partner) in older.chain(others) {
            // A partner that an end edge of this instant has closed was open: it is none of those with known
            // ends.
            if (row.end.max(end) < INFINITY) == closed && end > *now {
                let other = if closed { row.end.min(end) } else { INFINITY };
                pairs.push(*now, other, side, row.row, partner);
            }
        }
    }

    /// Time passes `now`: all that happened at it is emitted. No row comes before `next`.
    fn commit(&mut self, next: Time) {
        let ranks = self.arrived[0].len().max(self.arrived[1].len());
        self.join_closed(ranks);
        self.retire_all(true);
        for rank in 0..ranks {
            self.meet(0, rank, false);
            self.meet(1, rank, false);
        }
        self.joined = 0;
        self.settle(0, next);
        self.settle(1, next);
    }

    /// The rows of a side that started now go to its synopsis, if anyone will ask about them.
    fn settle(&mut self, side: usize, next: Time) {
        let State { sides, arrived, open, now, .. } = self;
        let has_open_partners = open[1 - side] > 0;
        arrived[side].settle(&mut sides[side], |rows, row| {
            if row.end == INFINITY || row.end > next || has_open_partners {
                rows.insert(row.group, row.row, *now, row.end, 0);
            }
        });
    }
}

impl Operator for Join {
    fn held(&self) -> Held {
        let State { sides, arrived, now, .. } = &self.state;
        let arrived = arrived.iter().map(Arrivals::len).sum();
        // Their columns are in the batches of the sides.
        let arrived = Held { rows: arrived, bytes: 0, oldest: (arrived > 0).then_some(*now) };
        sides.iter().map(Synopsis::held).fold(self.inputs.held().and(arrived), Held::and)
    }

    fn inputs(&self) -> usize {
        2
    }

    fn push(&mut self, input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        self.inputs.push(&mut self.state, input, message, out)
    }

    fn save(&self) -> Result<Vec<u8>> {
        let State { sides: [left, right], arrived, now, joined, open, .. } = &self.state;
        let arrived = (arrived[0].save(left)?, arrived[1].save(right)?);
        let sides = (left.save()?, right.save()?);
        encode(&(self.inputs.save()?, (now, joined, open), sides, arrived))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let Join { inputs, state: own } = self;
        let saved: SavedInputs;
        let sides: (SavedSynopsis, SavedSynopsis);
        let arrived: (SavedArrivals, SavedArrivals);
        (saved, (own.now, own.joined, own.open), sides, arrived) = decode(state)?;
        inputs.restore(saved)?;
        let (mut left, mut right) = (Synopsis::restore(sides.0)?, Synopsis::restore(sides.1)?);
        own.arrived = [Arrivals::restore(arrived.0, &mut left)?, Arrivals::restore(arrived.1, &mut right)?];
        own.sides = [left, right];
        Ok(())
    }
}
