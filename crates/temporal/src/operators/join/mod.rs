//! The temporal inner equi-join: a symmetric hash join over lifetimes (trill.txt §5.2.3).
//!
//! Two rows of one key are joined while both are alive: the result lives over the intersection of their
//! lifetimes. If both ends are known it is an interval; else it is emitted as a start edge, and ended when
//! the first of the two ends.
//!
//! Nothing follows from the end of a row whose pairs are all intervals. So as long as no row without a known
//! end has come, rows are not taken out one by one when they end: time passes over them.
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
mod joined_columns;
mod pairs;

pub(super) use joined_columns::JoinedColumns;
pub(super) use pairs::Pairs;

use crate::batch::Message;
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::operators::keyed_inputs::{Arrival, KeyedInputs, Pairing, SavedInputs};
use crate::pieces::PIECE_ROWS;
use crate::synopsis::{Access, EntryId, RowRef, SavedSynopsis, Synopsis};
use crate::time::{BEGINNING, INFINITY, Kind, Time};
use arrivals::{Arrivals, SavedArrivals};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;

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
    columns: JoinedColumns,
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

impl Join {
    /// Joins rows whose key columns are equal, pairwise; without key columns, all rows. The result has the
    /// left columns, then the right ones.
    pub fn new(left: SchemaRef, right: SchemaRef, left_key: Vec<usize>, right_key: Vec<usize>) -> Join {
        let state = State {
            columns: JoinedColumns::of(&left, &right),
            sides: [Synopsis::with_expiry(), Synopsis::with_expiry()],
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

    /// The same, but of its columns only these come out, in this order. Others are not copied.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn select(mut self, columns: &[usize]) -> Join {
        self.state.columns = self.state.columns.select(columns);
        self
    }

    /// The left columns, then the right ones, or those selected.
    pub fn schema(&self) -> &SchemaRef {
        self.state.columns.schema()
    }
}

impl Pairing for State {
    fn synopsis(&mut self, side: usize) -> Option<&mut Synopsis> {
        Some(&mut self.sides[side])
    }

    fn expect(&mut self, side: usize, groups: &[u32], capacity: usize) {
        self.sides[side].expect(groups, capacity, Access::Insert);
        self.sides[1 - side].expect(groups, capacity, Access::Lookup);
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
                if other == INFINITY {
                    self.open[side] += 1;
                    self.sides.iter_mut().for_each(Synopsis::ask_for_ends);
                }
            }
        }
    }

    fn arrived(&mut self) {
        self.join_closed(self.arrived[0].len().min(self.arrived[1].len()));
    }

    fn advance(&mut self, time: Time) {
        while self.now < time {
            self.commit(time);
            self.pairs.complete(self.now);
            self.now = self.next_end(time);
            self.sides.iter_mut().for_each(|side| side.expire(self.now));
            self.retire_all(false);
        }
    }

    fn empty_groups(&self) -> impl Fn(u32) -> bool {
        let mut arrived: Vec<u32> = self.arrived.iter().flat_map(Arrivals::groups).collect();
        arrived.sort_unstable();
        move |group| {
            self.sides.iter().all(|rows| rows.is_empty(group)) && arrived.binary_search(&group).is_err()
        }
    }

    fn is_full(&self) -> bool {
        self.pairs.left().len() >= PIECE_ROWS
    }

    fn flush(&mut self, out: &mut Vec<Message>) -> Result<bool> {
        let State { columns, sides: [left, right], pairs, now, .. } = self;
        pairs.complete(*now);
        columns.hand_out(pairs, [left.batches(), right.batches()], out)?;
        if self.pairs.left().is_empty() {
            self.sides.iter_mut().try_for_each(Synopsis::tidy)?;
        }
        Ok(!self.pairs.left().is_empty())
    }
}

impl State {
    /// A row ends now: so do the pairs emitted as start edges that it is in. `was_open`: its end was not
    /// known before.
    fn retire(&mut self, side: usize, id: EntryId, was_open: bool) {
        let State { sides, pairs, .. } = self;
        let entry = sides[side].get(id);
        if was_open || self.open[1 - side] > 0 {
            for (_, partner) in sides[1 - side].of(id.group) {
                if was_open || partner.end == INFINITY {
                    pairs.push(entry.start.max(partner.start), side, entry.row, partner.row);
                }
            }
        }
        self.open[side] -= was_open as usize;
        self.sides[side].remove(id);
    }

    /// Whether a row without a known end is alive, or was until now.
    fn has_open(&self) -> bool {
        self.open != [0, 0]
    }

    /// The next instant, up to `time`, at which a row ends that has to be taken out.
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
        let (older, others) = (&mut sides[1 - side], &arrived[1 - side]);
        let open_others = open[1 - side];
        let possible = match (closed, row.end < INFINITY) {
            (true, true) => older.count() + others.len() > open_others,
            (false, true) => open_others > 0,
            (closed, false) => !closed,
        };
        if !possible {
            return;
        }
        let mut pair = |end: Time, partner: RowRef| {
            // A partner that an end edge of this instant has closed was open: it is none of those with known
            // ends.
            if (row.end.max(end) < INFINITY) == closed && end > *now {
                let other = if closed { row.end.min(end) } else { INFINITY };
                pairs.push(other, side, row.row, partner);
            }
        };
        older.visit(row.group, &mut pair);
        others.of(row.group, rank + side).for_each(|partner| pair(partner.end, partner.row));
    }

    /// Time passes `now`: all that happened at it is emitted. No row comes before `next`.
    fn commit(&mut self, next: Time) {
        let ranks = self.arrived[0].len().max(self.arrived[1].len());
        self.join_closed(ranks);
        if self.has_open() {
            self.retire_all(true);
            for rank in 0..ranks {
                self.meet(0, rank, false);
                self.meet(1, rank, false);
            }
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

    fn proceed(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.inputs.proceed(&mut self.state, out)
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
        let empty = || if own.has_open() { Synopsis::default() } else { Synopsis::with_expiry() };
        let (mut left, mut right) = (empty().refill(sides.0)?, empty().refill(sides.1)?);
        [&mut left, &mut right].into_iter().for_each(|side| side.expire(own.now));
        own.arrived = [Arrivals::restore(arrived.0, &mut left)?, Arrivals::restore(arrived.1, &mut right)?];
        own.sides = [left, right];
        Ok(())
    }
}
