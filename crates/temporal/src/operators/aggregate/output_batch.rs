//! Results on their way out: rows are appended to growing columns and leave as one batch.
//!
//! Invariant: between two pushes nothing waits here. A result is handed out as soon as it is final, and a
//! checkpoint has no half-built batches; large inputs make large batches all the same.

use super::calls::{Plan, Results};
use crate::batch::{Batch, Message, Other};
use crate::groups::{Groups, KeyColumns};
use crate::rules::BATCH_ROWS;
use crate::time::Time;
use crate::values::{Column, copy_out};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;

/// A batch's sync times, other times and columns.
pub(super) type Taken = (ScalarBuffer<i64>, Vec<Time>, RecordBatch);

/// Some groups, as they are at one instant.
pub(super) struct Snapshots<'a> {
    pub keys: &'a Groups,
    pub groups: &'a [u32],
    pub results: &'a dyn Results,
}

/// The batch that is being built.
#[derive(Debug)]
pub(super) struct OutputBatch {
    schema: SchemaRef,
    key_types: Vec<DataType>,
    sync: Vec<Time>,
    /// The other times; unused where every row lives equally long.
    other: Vec<Time>,
    duration: Option<i64>,
    keys: KeyColumns,
    values: Vec<Column>,
}

impl OutputBatch {
    /// An empty batch of the plan's results; `duration`: they all are intervals of so many ticks.
    pub fn new(plan: &Plan, duration: Option<i64>) -> OutputBatch {
        OutputBatch {
            schema: plan.schema.clone(),
            key_types: plan.key_types.clone(),
            sync: Vec::new(),
            other: Vec::new(),
            duration,
            keys: KeyColumns::new(&plan.key_types),
            values: plan.columns(),
        }
    }

    /// Appends the results of these groups, with the sync time `sync`, and leaves their other times to the
    /// caller.
    pub fn rows(&mut self, sync: Time, of: Snapshots) -> &mut Vec<Time> {
        self.rows_at(std::iter::repeat_n(sync, of.groups.len()), of)
    }

    /// The same, each with its own sync time.
    pub fn rows_at(&mut self, sync: impl Iterator<Item = Time>, of: Snapshots) -> &mut Vec<Time> {
        self.sync.extend(sync);
        of.keys.append(of.groups, &mut self.keys);
        of.results.append(&mut self.values);
        &mut self.other
    }

    /// The other times of the rows so far.
    pub fn others(&mut self) -> &mut [Time] {
        &mut self.other
    }

    /// Whether the batch is full.
    pub fn is_full(&self) -> bool {
        self.sync.len() >= BATCH_ROWS
    }

    /// Hands the batch out if it is full.
    pub fn flush_full(&mut self, out: &mut Vec<Message>) -> Result<()> {
        if self.is_full() { self.flush(out) } else { Ok(()) }
    }

    /// Hands the batch out.
    pub fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        let duration = self.duration;
        if let Some((sync, other, rows)) = self.take()? {
            let other = duration.map_or_else(|| Other::Column(other.into()), Other::After);
            out.push(Message::Batch(Batch::new(sync, other, rows)));
        }
        Ok(())
    }

    /// The batch, if it has rows; it is empty again.
    pub fn take(&mut self) -> Result<Option<Taken>> {
        if self.sync.is_empty() {
            return Ok(None);
        }
        let mut columns = self.keys.finish(&self.key_types)?;
        for column in &mut self.values {
            columns.push(column.finish()?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.sync.len()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        Ok(Some((copy_out(&mut self.sync).into(), copy_out(&mut self.other), rows)))
    }
}
