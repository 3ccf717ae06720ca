//! The aggregate where every row lives equally long (hopping and sliding windows): what starts together ends together,
//! in the order in which it started.
//!
//! Invariants: `held` sums up, by key, the rows that started at `now`; when time passes `now` it is added to the live
//! groups as one *pane* and queued until its end, when it is subtracted again (trill.txt §5.2.1: the endpoint
//! compensation queue, here first-in first-out). So a row costs one small table look-up, whatever the windows' overlap.

use super::calls::{Plan, States};
use super::function::Leaving;
use super::held::Held;
use super::live::Live;
use super::tell::Tell;
use crate::batch::{Batch, Message};
use crate::operator::{Operator, decode, encode};
use crate::operators::runs::runs;
use crate::time::{BEGINNING, INFINITY, Time, end_after};
use datafusion::common::Result;
use std::collections::VecDeque;

/// A group's part of a pane: its rows and where their state is.
type Part = (u32, u32, i64);

/// See the module.
pub(super) struct Windowed {
    plan: Plan,
    size: i64,
    now: Time,
    held: Held,
    live: Live,
    /// The ends of the panes, and how many parts each has.
    ends: VecDeque<(Time, usize)>,
    parts: VecDeque<Part>,
    panes: States,
    places: u32,
    free: Vec<u32>,
    groups: Vec<u32>,
    slots: Vec<u32>,
}

impl Windowed {
    /// Aggregates over rows that live `size` ticks.
    pub fn new(plan: Plan, size: i64, tell: Tell) -> Result<Windowed> {
        Ok(Windowed {
            size,
            now: BEGINNING,
            held: Held::new(&plan, Leaving::InOrder, true)?,
            live: Live::new(&plan, Leaving::InOrder, tell)?,
            ends: VecDeque::new(),
            parts: VecDeque::new(),
            panes: plan.states(Leaving::InOrder)?,
            places: 0,
            free: Vec::new(),
            groups: Vec::new(),
            slots: Vec::new(),
            plan,
        })
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let loaded = self.held.load(&self.plan, batch)?;
        for run in runs(&loaded.batch.sync) {
            self.advance(loaded.batch.sync[run.start], out)?;
            self.held.add(&loaded, run)?;
        }
        self.live.flush(out)
    }

    /// Moves time to `time`: everything before it is told.
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

    /// Adds what is held to the live groups and queues it for its end.
    fn settle(&mut self) -> Result<()> {
        let count = self.held.len();
        if count == 0 {
            return Ok(());
        }
        self.groups.clear();
        self.live.groups.adopt(&self.held.groups, &mut self.groups)?;
        self.live.grow();
        self.live.touch(&self.groups, self.now);
        let mut held = std::mem::take(&mut self.slots);
        held.clear();
        held.extend(0..count as u32);
        let end = end_after(self.now, self.size);
        self.live.states.combine(&self.groups, &self.held.states, &held, end);
        self.ends.push_back((end, count));
        let mut places = Vec::with_capacity(count);
        for (&group, &rows) in self.groups.iter().zip(self.held.rows.iter().flatten()) {
            let place = self.free.pop().unwrap_or_else(|| {
                self.places += 1;
                self.places - 1
            });
            self.live.alive[group as usize] += rows;
            self.parts.push_back((group, place, rows));
            places.push(place);
        }
        self.panes.grow(self.places as usize);
        self.panes.combine(&places, &self.held.states, &held, end);
        self.held.clear(&held);
        self.slots = held;
        Ok(())
    }

    /// Takes a pane out of the live groups.
    fn expire(&mut self, end: Time, parts: usize) {
        self.groups.clear();
        self.slots.clear();
        for (group, place, rows) in self.parts.drain(..parts) {
            self.live.alive[group as usize] -= rows;
            self.groups.push(group);
            self.slots.push(place);
        }
        self.live.touch(&self.groups, end);
        self.live.states.difference(&self.groups, &self.panes, &self.slots, end);
        self.panes.reset(&self.slots);
        self.free.extend_from_slice(&self.slots);
    }
}

impl Operator for Windowed {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out)?,
            Message::Punctuation(time) => {
                self.advance(time, out)?;
                self.live.punctuation(time, out)?;
            }
        }
        self.held.states.failure()?;
        self.live.states.failure()?;
        self.panes.failure()
    }

    fn save(&self) -> Result<Vec<u8>> {
        let panes = (&self.ends, &self.parts, self.panes.save()?, self.places, &self.free);
        encode(&(self.now, self.held.save()?, self.live.save()?, panes))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (held, live): (Vec<u8>, Vec<u8>);
        let panes: Vec<Vec<u8>>;
        (self.now, held, live, (self.ends, self.parts, panes, self.places, self.free)) = decode(state)?;
        self.held.restore(&held)?;
        self.panes.restore(&panes)?;
        self.live.restore(&live)
    }
}
