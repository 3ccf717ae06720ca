//! A JSON object a line.

use super::{Bytes, Rows};
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::{LineDelimited, Writer};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::io::Write;

/// Writes JSON lines.
pub struct Json {
    writer: Writer<Bytes, LineDelimited>,
}

impl Json {
    /// A file. Nulls are written, so that every line has every column.
    pub fn new(to: Bytes) -> Json {
        Json { writer: WriterBuilder::new().with_explicit_nulls(true).build(to) }
    }
}

impl Rows for Json {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.writer.write(rows)?;
        Ok(self.writer.get_mut().flush()?)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.writer.finish()?;
        Ok(self.writer.into_inner().flush()?)
    }
}
