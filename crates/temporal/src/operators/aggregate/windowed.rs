//! The aggregate where every row lives equally long (hopping and sliding windows): what starts together ends together,
//! in the order in which it started.
//!
//! Invariants: `held` sums up, by key, the rows that started at `now`; when time passes `now` it is added to the live
//! groups as one *pane* and queued until its end, when it is subtracted again (trill.txt §5.2.1: the endpoint
//! compensation queue, here first-in first-out). So a row costs one small table look-up, whatever the windows' overlap.

use super::calls::{Plan, States};
use super::function::Leaving;
use super::live::Live;
use crate::batch::{Batch, Message};
use crate::groups::Groups;
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
    held: Groups,
    held_states: States,
    held_rows: Vec<i64>,
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
    pub fn new(plan: Plan, size: i64) -> Result<Windowed> {
        Ok(Windowed {
            size,
            now: BEGINNING,
            held: Groups::new(&plan.key_types),
            held_states: plan.states(Leaving::InOrder)?,
            held_rows: Vec::new(),
            live: Live::new(&plan, Leaving::InOrder)?,
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
        let mut batch = batch.compact()?;
        let key = batch.key(&self.plan.key)?;
        self.held_states.load(&self.plan.evaluate(&batch)?)?;
        for run in runs(&batch.sync) {
            self.advance(batch.sync[run.start], out)?;
            self.groups.clear();
            let first = run.start;
            self.held.intern(&key, run, &mut self.groups)?;
            self.held_states.grow(self.held.capacity());
            self.held_rows.resize(self.held.capacity(), 0);
            self.groups.iter().for_each(|&g| self.held_rows[g as usize] += 1);
            self.held_states.accumulate(&self.groups, first);
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
        let count = self.held.capacity();
        if count == 0 {
            return Ok(());
        }
        self.groups.clear();
        self.live.groups.adopt(&self.held, &mut self.groups)?;
        self.live.grow();
        self.live.touch(&self.groups, self.now);
        self.slots.clear();
        self.slots.extend(0..count as u32);
        let end = end_after(self.now, self.size);
        self.live.states.combine(&self.groups, &self.held_states, &self.slots, end);
        self.ends.push_back((end, count));
        let held = std::mem::take(&mut self.slots);
        let mut places = Vec::with_capacity(count);
        for (&group, &rows) in self.groups.iter().zip(&self.held_rows) {
            let place = self.free.pop().unwrap_or_else(|| {
                self.places += 1;
                self.places - 1
            });
            self.live.alive[group as usize] += rows;
            self.parts.push_back((group, place, rows));
            places.push(place);
        }
        self.panes.grow(self.places as usize);
        self.panes.combine(&places, &self.held_states, &held, end);
        self.held_states.reset(&held);
        self.held.clear();
        self.held_rows.clear();
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
            Message::Batch(batch) => self.batch(batch, out),
            Message::Punctuation(time) => {
                self.advance(time, out)?;
                self.live.flush(out)?;
                out.push(Message::Punctuation(time));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        let held = (&self.held, self.held_states.save()?, &self.held_rows);
        let panes = (&self.ends, &self.parts, self.panes.save()?, self.places, &self.free);
        encode(&(self.now, held, self.live.save()?, panes))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (held_states, panes): (Vec<Vec<u8>>, Vec<Vec<u8>>);
        let live: Vec<u8>;
        (
            self.now,
            (self.held, held_states, self.held_rows),
            live,
            (self.ends, self.parts, panes, self.places, self.free),
        ) = decode(state)?;
        self.held_states.restore(&held_states)?;
        self.panes.restore(&panes)?;
        self.live.restore(&live)
    }
}
