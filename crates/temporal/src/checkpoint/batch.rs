//! Batches and messages of a checkpoint.
//!
//! Invariant: what is restored is what was saved, row for row, absent rows too: how a merge cuts what
//! waits depends on them. Keys are left out; they are computed again.

use crate::batch::{Batch, Message, Other};
use crate::time::Time;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// A batch of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedBatch {
    sync: Vec<Time>,
    other: SavedOther,
    /// Which rows are present; none: all.
    present: Option<Vec<bool>>,
    /// The columns as an IPC stream of one batch.
    rows: ByteBuf,
}

/// The other times, in the form that the batch had.
#[derive(Debug, Serialize, Deserialize)]
enum SavedOther {
    Open,
    After(i64),
    Column(Vec<Time>),
}

/// A message of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedMessage(Saved);

#[derive(Debug, Serialize, Deserialize)]
enum Saved {
    Batch(SavedBatch),
    Punctuation(Time),
}

/// Columns as an IPC stream.
pub(crate) fn save_rows(rows: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), &rows.schema())?;
    writer.write(rows)?;
    Ok(writer.into_inner()?)
}

/// The columns of an IPC stream of one batch.
pub(crate) fn restore_rows(bytes: &[u8]) -> Result<RecordBatch> {
    match StreamReader::try_new(bytes, None)?.next() {
        Some(rows) => Ok(rows?),
        None => exec_err!("the checkpoint is cut short; take a new one"),
    }
}

impl SavedBatch {
    pub fn of(batch: &Batch) -> Result<SavedBatch> {
        let other = match &batch.other {
            Other::Open => SavedOther::Open,
            Other::After(duration) => SavedOther::After(*duration),
            Other::Column(other) => SavedOther::Column(other.to_vec()),
        };
        let present = batch.present().map(|present| present.iter().collect());
        Ok(SavedBatch { sync: batch.sync.to_vec(), other, present, rows: save_rows(&batch.rows)?.into() })
    }

    /// The batch that was saved, without a key.
    ///
    /// # Errors
    /// `Execution` if its columns are not equally long or its sync times not in order.
    pub fn batch(self) -> Result<Batch> {
        let rows = restore_rows(&self.rows)?;
        let others = match &self.other {
            SavedOther::Column(other) => other.len(),
            _ => rows.num_rows(),
        };
        let present = self.present.as_ref().map_or(rows.num_rows(), Vec::len);
        if [self.sync.len(), others, present] != [rows.num_rows(); 3] || !self.sync.is_sorted() {
            return exec_err!("the checkpoint has a batch whose columns do not fit together; take a new one");
        }
        let other = match self.other {
            SavedOther::Open => Other::Open,
            SavedOther::After(duration) => Other::After(duration),
            SavedOther::Column(other) => Other::Column(other.into()),
        };
        let mut batch = Batch::new(self.sync.into(), other, rows);
        if let Some(present) = self.present {
            batch.retain(&BooleanArray::from(present));
        }
        Ok(batch)
    }
}

impl SavedMessage {
    /// A message to be saved.
    ///
    /// # Errors
    /// `ArrowError` if its columns cannot be written.
    pub fn of(message: &Message) -> Result<SavedMessage> {
        Ok(SavedMessage(match message {
            Message::Batch(batch) => Saved::Batch(SavedBatch::of(batch)?),
            Message::Punctuation(time) => Saved::Punctuation(*time),
        }))
    }

    /// The message that was saved.
    ///
    /// # Errors
    /// `Execution` or `ArrowError` if the checkpoint does not hold together.
    pub fn message(self) -> Result<Message> {
        Ok(match self.0 {
            Saved::Batch(batch) => Message::Batch(batch.batch()?),
            Saved::Punctuation(time) => Message::Punctuation(time),
        })
    }
}
