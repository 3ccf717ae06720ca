//! What writes the rows of a result.

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::io::Write;

/// Writes the rows of one result in a format.
pub trait RowWriter: Send {
    /// Writes more rows.
    ///
    /// # Errors
    /// `IoError` or `ArrowError` if they cannot be written.
    fn write(&mut self, rows: &RecordBatch) -> Result<()>;

    /// Writes what is left after the last row, and flushes.
    ///
    /// # Errors
    /// As [`write`](RowWriter::write).
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Where the bytes of a result go.
pub type ByteSink = Box<dyn Write + Send>;
