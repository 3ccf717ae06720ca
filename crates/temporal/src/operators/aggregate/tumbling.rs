//! The aggregate where all rows alive together started together: a table that is filled for one instant, read out and
//! cleared. Rows of the result are intervals.
//!
//! Invariants: `held` has the groups of the rows at `now`, and no others; a state's number is its group's.

use super::calls::{Plan, States};
use super::emit::Emit;
use super::function::Leaving;
use crate::batch::{Batch, Message};
use crate::groups::Groups;
use crate::operator::{Operator, decode, encode};
use crate::operators::runs::runs;
use crate::time::{BEGINNING, Time};
use datafusion::common::Result;

/// See the module.
pub(super) struct Tumbling {
    plan: Plan,
    now: Time,
    held: Groups,
    states: States,
    emit: Emit,
    groups: Vec<u32>,
}

impl Tumbling {
    /// Aggregates over rows that live `size` ticks.
    pub fn new(plan: Plan, size: i64) -> Result<Tumbling> {
        Ok(Tumbling {
            now: BEGINNING,
            held: Groups::new(&plan.key_types),
            states: plan.states(Leaving::Never)?,
            emit: Emit::new(&plan, Some(size)),
            groups: Vec::new(),
            plan,
        })
    }

    /// Time passes `now`: what is held is complete.
    fn close(&mut self, out: &mut Vec<Message>) -> Result<()> {
        let count = self.held.capacity() as u32;
        if count == 0 {
            return Ok(());
        }
        self.groups.clear();
        self.groups.extend(0..count);
        self.emit.rows(self.now, &self.held, &self.states, &self.groups);
        self.states.reset(&self.groups);
        self.held.clear();
        self.emit.flush_full(out)
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let mut batch = batch.compact()?;
        let key = batch.key(&self.plan.key)?;
        self.states.load(&self.plan.evaluate(&batch)?)?;
        for run in runs(&batch.sync) {
            let time = batch.sync[run.start];
            if time > self.now {
                self.close(out)?;
                self.now = time;
            }
            self.groups.clear();
            let first = run.start;
            self.held.intern(&key, run, &mut self.groups)?;
            self.states.grow(self.held.capacity());
            self.states.accumulate(&self.groups, first);
        }
        self.emit.flush(out)
    }
}

impl Operator for Tumbling {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out),
            Message::Punctuation(time) => {
                if time > self.now {
                    self.close(out)?;
                }
                self.emit.flush(out)?;
                out.push(Message::Punctuation(time));
                Ok(())
            }
        }
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(self.now, &self.held, self.states.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let states: Vec<Vec<u8>>;
        (self.now, self.held, states) = decode(state)?;
        self.states.restore(&states)
    }
}
