//! The aggregate where all rows alive together start and end together: a table that is filled for one
//! instant, read out and cleared. Rows of the result are intervals.
//!
//! Invariant: `table` has the rows at `now`, which end at `until`, and no others.

use super::calls::Plan;
use super::instant_table::InstantTable;
use super::leaving::Leaving;
use super::output_batch::{OutputBatch, Snapshots};
use crate::batch::{Batch, Message};
use crate::held::Held;
use crate::operator::{Operator, decode, encode};
use crate::runs::runs;
use crate::time::{BEGINNING, Time};
use datafusion::common::Result;
use serde_bytes::ByteBuf;

/// See the module.
pub(super) struct Tumbling {
    plan: Plan,
    now: Time,
    until: Time,
    /// Whether all rows live equally long, and one number says so.
    equal: bool,
    table: InstantTable,
    output: OutputBatch,
    groups: Vec<u32>,
}

impl Tumbling {
    /// Aggregates over rows that live `size` ticks; without a size, until a time that those of one start
    /// have in common.
    pub fn new(plan: Plan, size: Option<i64>) -> Result<Tumbling> {
        Ok(Tumbling {
            now: BEGINNING,
            until: BEGINNING,
            equal: size.is_some(),
            table: InstantTable::new(&plan, Leaving::Never, false)?,
            output: OutputBatch::new(&plan, size),
            groups: Vec::new(),
            plan,
        })
    }

    /// How many groups there are at the present instant.
    pub fn groups(&self) -> usize {
        self.table.len()
    }

    /// Emits the groups of the present instant, complete or not.
    pub fn drain(&mut self, out: &mut Vec<Message>) -> Result<()> {
        self.close(out)?;
        self.output.flush(out)
    }

    /// Time passes `now`: its groups are complete.
    fn close(&mut self, out: &mut Vec<Message>) -> Result<()> {
        let count = self.table.len() as u32;
        if count == 0 {
            return Ok(());
        }
        self.groups.clear();
        self.groups.extend(0..count);
        let InstantTable { groups: keys, states, .. } = &self.table;
        let groups = &self.groups;
        let results = &states.results(groups, &[]);
        let others = self.output.rows(self.now, Snapshots { keys, groups, results });
        if !self.equal {
            others.resize(others.len() + groups.len(), self.until);
        }
        self.table.clear(&self.groups);
        self.output.flush_full(out)
    }

    fn batch(&mut self, batch: Batch, out: &mut Vec<Message>) -> Result<()> {
        let loaded = self.table.load(&self.plan, batch)?;
        for run in runs(&loaded.batch.sync) {
            let time = loaded.batch.sync[run.start];
            if time > self.now {
                self.close(out)?;
                (self.now, self.until) = (time, loaded.batch.other_at(run.start));
            }
            self.table.add(&loaded, run)?;
        }
        self.output.flush(out)
    }
}

impl Operator for Tumbling {
    fn held(&self) -> Held {
        Held::saved(self.table.len(), Some(self.now), self.save())
    }

    fn push(&mut self, _input: usize, message: Message, out: &mut Vec<Message>) -> Result<()> {
        match message {
            Message::Batch(batch) => self.batch(batch, out)?,
            Message::Punctuation(time) => {
                if time > self.now {
                    self.close(out)?;
                }
                self.output.flush(out)?;
                out.push(Message::Punctuation(time));
            }
        }
        self.table.states.failure()
    }

    fn save(&self) -> Result<Vec<u8>> {
        encode(&(self.now, self.until, ByteBuf::from(self.table.save()?)))
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        let table: Vec<u8>;
        (self.now, self.until, table) = decode(state)?;
        self.table.restore(&table)
    }
}
