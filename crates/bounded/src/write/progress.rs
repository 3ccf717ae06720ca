//! What a statement has written so far.
//!
//! On a store that writes key by key a statement for several rows can be tried again when some of them are
//! written. Invariant: each row is written once, however often the statement is tried.

use crate::error::{Error, Result};
use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::{concat_batches, filter_record_batch};
use std::collections::BTreeSet;

/// The rows that a statement has written.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The keys of their records.
    keys: BTreeSet<Vec<u8>>,
    /// The rows, try by try.
    written: Vec<RecordBatch>,
    /// How many rows the last try did not write.
    left: usize,
}

impl Progress {
    /// Without the rows that are written.
    pub fn unwritten(
        &self,
        batch: &RecordBatch,
        mut keys: Vec<Vec<u8>>,
    ) -> Result<(RecordBatch, Vec<Vec<u8>>)> {
        if self.keys.is_empty() {
            return Ok((batch.clone(), keys));
        }
        let left: BooleanArray = keys.iter().map(|key| Some(!self.keys.contains(key))).collect();
        keys.retain(|key| !self.keys.contains(key));
        Ok((filter_record_batch(batch, &left)?, keys))
    }

    /// The first rows of this batch are written, the others are not.
    pub fn add<'k>(&mut self, batch: &RecordBatch, keys: impl ExactSizeIterator<Item = &'k Vec<u8>>) {
        let rows = keys.len();
        self.left = batch.num_rows().saturating_sub(rows);
        if rows > 0 {
            self.keys.extend(keys.cloned());
            self.written.push(batch.slice(0, rows));
        }
    }

    /// How many rows are written.
    pub fn rows(&self) -> usize {
        self.keys.len()
    }

    /// How many rows are written, and of how many; nothing if there is none.
    pub fn says(&self) -> Option<String> {
        let (written, all) = (self.rows(), self.rows() + self.left);
        (written > 0).then(|| format!("{written} of {all} rows were written"))
    }

    /// The rows that are written; `like` has their columns.
    ///
    /// # Errors
    /// `Conflict` if the table got other columns between two tries.
    pub fn written(&self, like: &RecordBatch) -> Result<RecordBatch> {
        if let [all] = self.written.as_slice() {
            return Ok(all.clone());
        }
        concat_batches(&like.schema(), &self.written).map_err(|_| {
            Error::Conflict(format!(
                "all {} rows were written, and cannot be returned: the schema was changed meanwhile",
                self.rows()
            ))
        })
    }

    /// The error of a statement of which some rows are written.
    pub fn explain(&self, error: Error) -> Error {
        match (error, self.says()) {
            (Error::Data(message), Some(says)) => Error::Data(format!("{message}; {says}")),
            (error, _) => error,
        }
    }
}
