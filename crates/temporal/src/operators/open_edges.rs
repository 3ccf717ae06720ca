//! Start edges that wait for their end edges, found by payload and start.
//!
//! Invariants: rows with equal columns are one group; `open` has every start edge whose end edge has not
//! come, and no list in it is empty. Of several equal edges that began together any may be taken.

use crate::batch::Batch;
use crate::groups::Groups;
use crate::synopsis::{EntryId, Synopsis};
use crate::time::Time;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use hashbrown::HashMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct OpenEdges {
    /// None: no row has come yet.
    groups: Option<Groups>,
    open: HashMap<(u32, Time), Vec<EntryId>>,
}

impl OpenEdges {
    /// The group of each row of a compact batch; new groups are made where needed.
    pub fn intern(&mut self, batch: &mut Batch) -> Result<Vec<u32>> {
        let types: Vec<DataType> = batch.rows.columns().iter().map(|c| c.data_type().clone()).collect();
        let key = batch.identity()?;
        let mut numbers = Vec::new();
        self.groups.get_or_insert_with(|| Groups::new(&types)).intern(&key, 0..batch.len(), &mut numbers)?;
        Ok(numbers)
    }

    /// A row of this group begins at `start`.
    pub fn open(&mut self, group: u32, start: Time, id: EntryId) {
        self.open.entry((group, start)).or_default().push(id);
    }

    /// The row of this group that began at `start` and ends at `end`; it is not open any more.
    ///
    /// # Errors
    /// `Execution` if there is none.
    pub fn close(&mut self, group: u32, start: Time, end: Time) -> Result<EntryId> {
        if let Some(open) = self.open.get_mut(&(group, start))
            && let Some(id) = open.pop()
        {
            if open.is_empty() {
                self.open.remove(&(group, start));
            }
            return Ok(id);
        }
        no_start_edge(start, end)
    }

    /// Forgets those of these groups of which `rows` has no row.
    pub fn forget_empty(&mut self, numbers: &[u32], rows: &Synopsis) {
        let Some(groups) = &mut self.groups else { return };
        numbers.iter().filter(|&&group| rows.is_empty(group)).for_each(|&group| groups.remove(group));
    }

    /// Forgets which rows are open; groups stay.
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// The groups, for a checkpoint. The open rows are noted again after it.
    pub fn groups(&self) -> &Option<Groups> {
        &self.groups
    }

    /// These groups, and no open row.
    pub fn restore(groups: Option<Groups>) -> OpenEdges {
        OpenEdges { groups, open: HashMap::new() }
    }
}

/// Fails: no row began at `start` that could end at `end`.
pub(crate) fn no_start_edge<T>(start: Time, end: Time) -> Result<T> {
    exec_err!(
        "an end edge at {end} ends a row that began at {start}, but no such row is open; a start edge and its end \
         edge carry equal columns"
    )
}
