//! Apache Parquet.

use super::{Bytes, Rows, Writing};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;

/// Writes Parquet.
pub struct Parquet {
    writer: ArrowWriter<Bytes>,
}

impl Parquet {
    /// A file with these columns.
    pub fn new(schema: &SchemaRef, to: Bytes, writing: &Writing) -> Result<Parquet> {
        let mut properties = WriterProperties::builder().set_compression(writing.compression);
        if writing.row_group_size.is_some() {
            properties = properties.set_max_row_group_row_count(writing.row_group_size);
        }
        Ok(Parquet { writer: ArrowWriter::try_new(to, schema.clone(), Some(properties.build()))? })
    }
}

impl Rows for Parquet {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        Ok(self.writer.write(rows)?)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(self.writer.into_inner()?.flush()?)
    }
}
