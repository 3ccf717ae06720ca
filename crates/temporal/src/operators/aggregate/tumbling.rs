//! The aggregate where all rows alive together started together: a table that is filled for one instant, read out and
//! cleared. Rows of the result are intervals.
//!
//! Invariant: `held` has the rows at `now`, and no others.

use super::calls::Plan;
use super::emit::{Emit, Snapshots};
use super::formulas::{Blocks, Formulas, ROWS};
use super::function::Leaving;
use super::held::Held;
use crate::batch::{Batch, Message};
use crate::formula::Numbers;
use crate::operator::{Operator, decode, encode};
use crate::operators::runs::runs;
use crate::time::{BEGINNING, Time};
use datafusion::common::{Result, internal_err};

/// See the module.
pub(super) struct Tumbling {
    plan: Plan,
    now: Time,
    held: Held,
    emit: Emit,
    groups: Vec<u32>,
    /// What rows are computed by, if it is formulas.
    blocks: Option<Blocks>,
}

impl Tumbling {
    /// Aggregates over rows that live `size` ticks.
    pub fn new(plan: Plan, size: i64) -> Result<Tumbling> {
        Ok(Tumbling {
            now: BEGINNING,
            held: Held::new(&plan, Leaving::Never, false)?,
            emit: Emit::new(&plan, Some(size)),
            groups: Vec::new(),
            blocks: None,
            plan,
        })
    }

    /// The same without a key over rows that are picked and computed by formulas.
    pub fn of_formulas(plan: Plan, size: i64, formulas: Formulas) -> Result<Tumbling> {
        let mut tumbling = Tumbling::new(plan, size)?;
        if !tumbling.plan.key.is_empty() || !tumbling.held.states.take_blocks() {
            return internal_err!("formulas are for sums and counts without a key");
        }
        tumbling.blocks = Some(Blocks::new(formulas));
        Ok(tumbling)
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

    /// The rows that follow live at `time`.
    fn pass(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        if time > self.now {
            self.close(out)?;
            self.now = time;
        }
        Ok(())
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        match self.blocks.as_ref().and_then(|blocks| blocks.numbers(&batch)) {
            Some(numbers) => self.add_in_blocks(&batch, &numbers, out)?,
            None => self.add(batch, out)?,
        }
        self.emit.flush(out)
    }

    fn add(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let batch = match &self.blocks {
            Some(blocks) => blocks.pick(batch)?,
            None => batch,
        };
        let loaded = self.held.load(&self.plan, batch)?;
        for run in runs(&loaded.batch.sync) {
            self.pass(loaded.batch.sync[run.start], out)?;
            self.held.add(&loaded, run)?;
        }
        Ok(())
    }

    fn add_in_blocks(
        &mut self,
        batch: &Batch,
        numbers: &[Numbers<i64>],
        out: &mut Vec<Message>,
    ) -> Result<()> {
        for run in runs(&batch.sync) {
            self.pass(batch.sync[run.start], out)?;
            for first in run.clone().step_by(ROWS) {
                let rows = first..run.end.min(first + ROWS);
                let Tumbling { held, blocks, .. } = self;
                let added = |blocks| held.add_block(blocks, numbers, rows.clone());
                if !blocks.as_mut().is_some_and(added) {
                    self.add(batch.slice(first, rows.len()), out)?;
                }
            }
        }
        Ok(())
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
