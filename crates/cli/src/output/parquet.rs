//! Apache Parquet.

use super::file_options::FileOptions;
use super::writer::{ByteSink, RowWriter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;

/// Writes Parquet.
pub struct Parquet {
    writer: ArrowWriter<ByteSink>,
}

impl Parquet {
    /// A writer of rows with these columns.
    ///
    /// # Errors
    /// `ParquetError` if there can be no such file.
    pub fn new(schema: &SchemaRef, sink: ByteSink, options: &FileOptions) -> Result<Parquet> {
        let mut properties = WriterProperties::builder().set_compression(options.compression);
        if options.row_group_size.is_some() {
            properties = properties.set_max_row_group_row_count(options.row_group_size);
        }
        Ok(Parquet { writer: ArrowWriter::try_new(sink, schema.clone(), Some(properties.build()))? })
    }
}

impl RowWriter for Parquet {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        Ok(self.writer.write(rows)?)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(self.writer.into_inner()?.flush()?)
    }
}
