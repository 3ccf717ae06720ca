//! The aggregate where all rows alive together started together: a table that is filled for one instant, read out and
//! cleared. Rows of the result are intervals.
//!
//! Invariant: `held` has the rows at `now`, and no others.

use super::calls::Plan;
use super::emit::{Emit, Snapshots};
use super::function::Leaving;
use super::held::Held;
use crate::batch::{Batch, Message};
use crate::operator::{Operator, decode, encode};
use crate::operators::runs::runs;
use crate::time::{BEGINNING, Time};
use datafusion::common::Result;

/// See the module.
pub(super) struct Tumbling {
    plan: Plan,
    now: Time,
    held: Held,
    emit: Emit,
    groups: Vec<u32>,
}

impl Tumbling {
    /// Aggregates over rows that live `size` ticks.
    pub fn new(plan: Plan, size: i64) -> Result<Tumbling> {
        Ok(Tumbling {
            now: BEGINNING,
            held: Held::new(&plan, Leaving::Never, false)?,
            emit: Emit::new(&plan, Some(size)),
            groups: Vec::new(),
            plan,
        })
    }

    /// How many groups are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Hands on what is held, complete or not.
    pub fn drain(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.close(out)?;
        self.emit.flush(out)
    }

    /// Time passes `now`: what is held is complete.
    fn close(&mut self, out: &mut Vec<Message>) -> Result<()> {
        let count = self.held.len() as u32;
        if count == 0 {
            return Ok(());
        }
        self.groups.clear();
        self.groups.extend(0..count);
        let Held { groups: keys, states, .. } = &self.held;
        let groups = &self.groups;
        let results = &states.results(groups, &[]);
        self.emit.rows(self.now, Snapshots { keys, groups, results });
        self.held.clear(&self.groups);
        self.emit.flush_full(out)
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let loaded = self.held.load(&self.plan, batch)?;
        for run in runs(&loaded.batch.sync) {
            let time = loaded.batch.sync[run.start];
            if time > self.now {
                self.close(out)?;
                self.now = time;
            }
            self.held.add(&loaded, run)?;
        }
        self.emit.flush(out)
    }
}

impl Operator for Tumbling {
    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out)?,
            Message::Punctuation(time) => {
                if time > self.now {
                    self.close(out)?;
                }
                self.emit.flush(out)?;
                out.push(Message::Punctuation(time));
            }
        }
        self.held.states.failure()
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(self.now, self.held.save()?))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let held: Vec<u8>;
        (self.now, held) = decode(state)?;
        self.held.restore(&held)
    }
}
