//! The rows of one instant, summed up by group.
//!
//! Invariants: a group is here exactly if one of its rows is; a state's number is its group's. Without a
//! key there is one group at most: its rows are added up a run at a time, and those that a filter took
//! out are skipped by their bits instead of moved together first.

use super::accumulator::Rows;
use super::calls::{Plan, States};
use super::leaving::Leaving;
use crate::batch::Batch;
use crate::groups::Groups;
use crate::key::Key;
use crate::operator::{decode, encode};
use datafusion::common::Result;
use serde_bytes::ByteBuf;
use std::ops::Range;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(super) struct InstantTable {
    pub groups: Groups,
    pub states: States,
    /// How many rows each group has, for those who ask.
    pub rows: Option<Vec<i64>>,
    /// Whether absent rows may stay where they are.
    sparse: bool,
    numbers: Vec<u32>,
}

/// A batch whose runs can be taken in.
pub(super) struct Loaded {
    pub batch: Batch,
    /// None: no key.
    pub key: Option<Arc<Key>>,
    /// What each aggregate reads of it.
    pub rows: Vec<Rows>,
}

impl InstantTable {
    pub fn new(plan: &Plan, leaving: Leaving, counted: bool) -> Result<InstantTable> {
        Ok(InstantTable {
            groups: Groups::new(&plan.key_types),
            states: if counted { plan.states_beside_rows(leaving)? } else { plan.states(leaving)? },
            rows: counted.then(Vec::new),
            sparse: plan.key.is_empty() && plan.only_columns(),
            numbers: Vec::new(),
        })
    }

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.groups.capacity()
    }

    /// Says which batch the next runs are of.
    pub fn load(&mut self, plan: &Plan, batch: Batch) -> Result<Loaded> {
        let mut batch = if self.sparse { batch } else { batch.compact()? };
        let rows = plan.evaluate(&batch)?;
        self.states.load(&rows)?;
        let key = if plan.key.is_empty() { None } else { Some(batch.key(&plan.key)?) };
        Ok(Loaded { batch, key, rows })
    }

    /// Takes in rows that start together.
    pub fn add(&mut self, loaded: &Loaded, run: Range<usize>) -> Result<()> {
        let Some(key) = &loaded.key else {
            self.add_all(&loaded.batch, run);
            return Ok(());
        };
        let first = run.start;
        self.numbers.clear();
        self.groups.intern(key, run, &mut self.numbers)?;
        self.grow();
        if let Some(rows) = &mut self.rows {
            self.numbers.iter().for_each(|&g| rows[g as usize] += 1);
        }
        self.states.accumulate(&self.numbers, first);
        Ok(())
    }

    fn add_all(&mut self, batch: &Batch, run: Range<usize>) {
        let present = batch.present();
        let count = present.map_or(run.len(), |p| p.slice(run.start, run.len()).count_set_bits());
        if count > 0 {
            let group = self.groups.only();
            self.grow();
            if let Some(rows) = &mut self.rows {
                rows[group as usize] += count as i64;
            }
            self.states.accumulate_run(group, run, present);
        }
    }

    fn grow(&mut self) {
        let groups = self.groups.capacity();
        self.states.grow(groups);
        if let Some(rows) = &mut self.rows {
            rows.resize(groups, 0);
        }
    }

    /// Forgets all; `groups`: the numbers of all groups.
    pub fn clear(&mut self, groups: &[u32]) {
        self.states.reset(groups);
        self.groups.clear();
        self.rows.iter_mut().for_each(Vec::clear);
    }

    pub fn save(&self) -> Result<Vec<u8>> {
        encode(&(&self.groups, self.states.save()?, &self.rows))
    }

    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let states: Vec<ByteBuf>;
        (self.groups, states, self.rows) = decode(bytes)?;
        self.states.restore(&states)
    }
}
