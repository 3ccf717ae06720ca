//! JSON lines: an object a line.

use super::writer::{ByteSink, RowWriter};
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::{LineDelimited, Writer};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::io::Write;

/// Writes JSON lines.
pub struct Json {
    writer: Writer<ByteSink, LineDelimited>,
}

impl Json {
    /// A writer that writes nulls too: every line has every column.
    pub fn new(sink: ByteSink) -> Json {
        Json { writer: WriterBuilder::new().with_explicit_nulls(true).build(sink) }
    }
}

impl RowWriter for Json {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.writer.write(rows)?;
        Ok(self.writer.get_mut().flush()?)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.writer.finish()?;
        Ok(self.writer.into_inner().flush()?)
    }
}
