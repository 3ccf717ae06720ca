//! The start edges that have been let in and have not ended: an end edge that ends none of them is refused,
//! because what operators made of it would be wrong.
//!
//! Invariants: equal start edges that began together are one entry, with how many they are; a group that has
//! none is forgotten. Columns are told apart to the bit.

use crate::batch::Batch;
use crate::groups::Groups;
use crate::key::Key;
use crate::time::{Instant, Kind, Time};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, exec_err};
use hashbrown::HashMap;

/// For a checkpoint.
/// The groups, how many edges of each are open, and the open edges, sorted: a state always gives the same
/// bytes.
pub(super) type SavedEdges = (Groups, Vec<u32>, Vec<((u32, Time), u32)>);

/// See the module.
#[derive(Default)]
pub(super) struct OpenEdges {
    groups: Option<Groups>,
    /// How many of each group's edges are open.
    of_group: Vec<u32>,
    /// How many equal start edges are open, by group and start.
    open: HashMap<(u32, Time), u32>,
    numbers: Vec<u32>,
}

impl OpenEdges {
    /// Takes in rows in their order.
    ///
    /// # Errors
    /// `Execution` if an end edge ends no row.
    pub fn pass(&mut self, batch: &Batch, unit: Option<TimeUnit>) -> Result<()> {
        if (0..batch.len()).all(|row| batch.kind_at(row) == Kind::Interval) {
            return Ok(());
        }
        let columns: Vec<usize> = (0..batch.rows.num_columns()).collect();
        let key = Key::exact(&batch.rows, &columns)?;
        let types: Vec<DataType> = batch.rows.columns().iter().map(|c| c.data_type().clone()).collect();
        for row in 0..batch.len() {
            let (sync, other) = (batch.sync[row], batch.other_at(row));
            let kind = Kind::of(sync, other);
            if kind == Kind::Interval {
                continue;
            }
            self.numbers.clear();
            let groups = self.groups.get_or_insert_with(|| Groups::new(&types));
            groups.intern(&key, row..row + 1, &mut self.numbers)?;
            self.of_group.resize(groups.capacity().max(self.of_group.len()), 0);
            let group = self.numbers[0];
            match kind {
                Kind::End if !self.end(group, other) => return orphan(batch, row, unit),
                Kind::End => {}
                _ => self.start(group, sync),
            }
        }
        Ok(())
    }

    fn start(&mut self, group: u32, start: Time) {
        self.of_group[group as usize] += 1;
        *self.open.entry((group, start)).or_default() += 1;
    }

    /// A row of the group that started then ends; whether there is one.
    fn end(&mut self, group: u32, start: Time) -> bool {
        let Some(open) = self.open.get_mut(&(group, start)) else { return false };
        *open -= 1;
        if *open == 0 {
            self.open.remove(&(group, start));
        }
        let left = &mut self.of_group[group as usize];
        *left -= 1;
        if *left == 0
            && let Some(groups) = &mut self.groups
        {
            groups.remove(group);
        }
        true
    }

    pub fn save(&self) -> Option<SavedEdges> {
        let mut open: Vec<_> = self.open.iter().map(|(edge, count)| (*edge, *count)).collect();
        open.sort_unstable();
        Some((self.groups.clone()?, self.of_group.clone(), open))
    }

    pub fn restore(saved: Option<SavedEdges>) -> OpenEdges {
        let Some((groups, of_group, open)) = saved else { return OpenEdges::default() };
        OpenEdges { groups: Some(groups), of_group, open: open.into_iter().collect(), numbers: Vec::new() }
    }
}

/// Refuses an end edge that ends no row, and shows its columns.
fn orphan<T>(batch: &Batch, row: usize, unit: Option<TimeUnit>) -> Result<T> {
    let options = FormatOptions::default().with_null("null");
    let mut values = Vec::new();
    for (field, column) in batch.rows.schema().fields().iter().zip(batch.rows.columns()) {
        let value = ArrayFormatter::try_new(column, &options)?.value(row).to_string();
        values.push(format!("{}: {value}", field.name()));
    }
    exec_err!(
        "the end edge at {} of the row ({}) that began at {} ends no row: no such start edge is open; a start edge and \
         its end edge have the same start and equal columns",
        Instant { time: batch.sync[row], unit },
        values.join(", "),
        Instant { time: batch.other_at(row), unit }
    )
}
