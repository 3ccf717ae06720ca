//! The aggregate where every row lives equally long (hopping and sliding windows): what starts together
//! ends together, in the order in which it started.
//!
//! Invariants: `table` sums up, by key, the rows that started at `now`; when time passes `now` it is
//! added to the live groups as one *pane* and queued until its end, when it is subtracted again
//! (trill.txt §5.2.1: the endpoint compensation queue, here first-in first-out). So a row costs one small
//! table look-up, whatever the windows' overlap.
//!
//! Where hardly two rows of an instant share a key, summing them up first only costs: then `table` is
//! left out, and every row is a part of its pane by itself. What comes out is the same.

use super::calls::{Plan, States};
use super::emitter::Emitter;
use super::instant_table::InstantTable;
use super::leaving::Leaving;
use super::live::Live;
use crate::batch::{Batch, Message};
use crate::held::Held;
use crate::key::Key;
use crate::operator::{Operator, decode, encode};
use crate::runs::runs;
use crate::time::{BEGINNING, INFINITY, Time, end_after, start_before};
use datafusion::common::Result;
use serde_bytes::ByteBuf;
use std::collections::VecDeque;
use std::ops::Range;

/// A group's part of a pane: where its state is, and of how many rows.
type Part = (u32, u32, i64);

/// How many rows a pane needs to show whether its rows share keys.
const SAMPLE: usize = 8;
/// For how many times its rows a pane without shared keys decides: keys may change.
const DECISION_SAMPLES: usize = 32;

/// How many of the next rows are better not summed up by key first, after a pane of so many parts and
/// rows.
pub(super) fn ungrouped_rows(parts: usize, rows: usize) -> usize {
    if rows >= SAMPLE && parts * 2 > rows { rows * DECISION_SAMPLES } else { 0 }
}

/// See the module.
pub(super) struct Windowed {
    plan: Plan,
    size: i64,
    now: Time,
    table: InstantTable,
    live: Live,
    /// The ends of the panes, and how many parts each has.
    ends: VecDeque<(Time, usize)>,
    /// The parts of all panes; those that end first are in front.
    parts: VecDeque<Part>,
    /// The states of the parts, by place.
    panes: States,
    /// How many places there are, free ones included.
    places: u32,
    free: Vec<u32>,
    /// How many of the next rows are taken in without `table`.
    ungrouped: usize,
    groups: Vec<u32>,
    slots: Vec<u32>,
}

impl Windowed {
    /// Aggregates over rows that live `size` ticks.
    pub fn new(plan: Plan, size: i64, emitter: Emitter) -> Result<Windowed> {
        Ok(Windowed {
            size,
            now: BEGINNING,
            table: InstantTable::new(&plan, Leaving::InOrder, true)?,
            live: Live::new(&plan, Leaving::InOrder, emitter)?,
            ends: VecDeque::new(),
            parts: VecDeque::new(),
            panes: plan.states_beside_rows(Leaving::InOrder)?,
            places: 0,
            free: Vec::new(),
            ungrouped: 0,
            groups: Vec::new(),
            slots: Vec::new(),
            plan,
        })
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let loaded = self.table.load(&self.plan, batch)?;
        // Both load every batch, because both number rows by arrival.
        self.panes.load(&loaded.rows)?;
        for run in runs(&loaded.batch.sync) {
            self.advance(loaded.batch.sync[run.start], out)?;
            match &loaded.key {
                Some(key) if self.ungrouped > 0 => {
                    self.settle()?;
                    self.ungrouped = self.ungrouped.saturating_sub(run.len());
                    self.add_each(key, run)?;
                }
                _ => self.table.add(&loaded, run)?,
            }
        }
        self.live.flush(out)
    }

    /// Takes in rows that start together, each as a part of its own.
    fn add_each(&mut self, key: &Key, run: Range<usize>) -> Result<()> {
        self.groups.clear();
        let (first, count) = (run.start, run.len());
        self.live.groups.intern(key, run, &mut self.groups)?;
        self.live.grow();
        self.live.touch(&self.groups, std::iter::repeat(1), self.now);
        self.occupy(count);
        self.panes.accumulate(&self.slots, first);
        let end = end_after(self.now, self.size);
        self.live.states.combine(&self.groups, &self.panes, &self.slots, end);
        self.enqueue(end, std::iter::repeat_n(1, count));
        Ok(())
    }

    /// Moves time to `time`, and emits everything before it.
    fn advance(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        if time <= self.now {
            return Ok(());
        }
        self.settle()?;
        self.live.commit(self.now, out)?;
        while let Some(&(end, parts)) = self.ends.front()
            && end <= time
            && end < INFINITY
        {
            self.ends.pop_front();
            self.expire(end, parts);
            if end < time {
                self.live.commit(end, out)?;
            }
        }
        self.now = time;
        Ok(())
    }

    /// Adds the rows of the present instant to the live groups, and queues them for their end.
    fn settle(&mut self) -> Result<()> {
        let count = self.table.len();
        if count == 0 {
            return Ok(());
        }
        self.groups.clear();
        self.live.groups.adopt(&self.table.groups, &mut self.groups)?;
        self.live.grow();
        let rows = self.table.rows.take().unwrap_or_default();
        self.live.touch(&self.groups, rows.iter().copied(), self.now);
        let all: Vec<u32> = (0..count as u32).collect();
        let end = end_after(self.now, self.size);
        self.live.states.combine(&self.groups, &self.table.states, &all, end);
        self.occupy(count);
        self.panes.combine(&self.slots, &self.table.states, &all, end);
        self.ungrouped = ungrouped_rows(count, rows.iter().sum::<i64>() as usize);
        self.enqueue(end, rows.iter().copied());
        self.table.rows = Some(rows);
        self.table.clear(&all);
        Ok(())
    }

    /// Finds places for the states of so many parts: `slots`.
    fn occupy(&mut self, count: usize) {
        let reused = self.free.len() - count.min(self.free.len());
        self.slots.clear();
        self.slots.extend(self.free.drain(reused..).rev());
        let new = (count - self.slots.len()) as u32;
        self.slots.extend(self.places..self.places + new);
        self.places += new;
        self.panes.grow(self.places as usize);
    }

    /// Queues the parts of `groups` in `slots`, of so many rows each, until their end.
    fn enqueue(&mut self, end: Time, rows: impl Iterator<Item = i64>) {
        match self.ends.back_mut() {
            Some((last, count)) if *last == end => *count += self.groups.len(),
            _ => self.ends.push_back((end, self.groups.len())),
        }
        for ((&group, &place), rows) in self.groups.iter().zip(&self.slots).zip(rows) {
            self.parts.push_back((group, place, rows));
        }
    }

    /// Takes a pane out of the live groups.
    fn expire(&mut self, end: Time, parts: usize) {
        self.groups.clear();
        self.slots.clear();
        self.groups.extend(self.parts.range(..parts).map(|(group, _, _)| group));
        self.slots.extend(self.parts.range(..parts).map(|(_, place, _)| place));
        self.live.touch(&self.groups, self.parts.drain(..parts).map(|(_, _, rows)| -rows), end);
        self.live.states.difference(&self.groups, &self.panes, &self.slots, end);
        self.panes.reset(&self.slots);
        self.free.extend_from_slice(&self.slots);
    }
}

impl Operator for Windowed {
    fn held(&self) -> Held {
        let first = self.ends.front().map_or(Some(self.now), |(end, _)| start_before(*end, self.size));
        Held::saved(self.live.living().max(self.table.len()), first, self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out)?,
            Message::Punctuation(time) => {
                self.advance(time, out)?;
                self.live.punctuation(time, out)?;
            }
        }
        self.table.states.failure()?;
        self.live.states.failure()?;
        self.panes.failure()
    }

    fn save(&self) -> Result<Vec<u8>> {
        let panes = (&self.ends, &self.parts, self.panes.save()?, self.places, &self.free, self.ungrouped);
        encode(&(self.now, ByteBuf::from(self.table.save()?), ByteBuf::from(self.live.save()?), panes))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (table, live): (Vec<u8>, Vec<u8>);
        let panes: Vec<ByteBuf>;
        (self.now, table, live, (self.ends, self.parts, panes, self.places, self.free, self.ungrouped)) =
            decode(state)?;
        self.table.restore(&table)?;
        self.panes.restore(&panes)?;
        self.live.restore(&live)
    }
}
