//! Batches as bytes, for checkpoints: times as integers, columns as an Arrow IPC stream.

use crate::batch::{Batch, Other};
use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};

/// A batch of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedBatch {
    sync: Vec<i64>,
    other: Vec<i64>,
    rows: Vec<u8>,
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
        let batch = batch.clone().compact()?;
        Ok(SavedBatch {
            sync: batch.sync.to_vec(),
            other: batch.other_column().to_vec(),
            rows: save_rows(&batch.rows)?,
        })
    }

    pub fn batch(self) -> Result<Batch> {
        Ok(Batch::new(self.sync.into(), Other::Column(self.other.into()), restore_rows(&self.rows)?))
    }
}
