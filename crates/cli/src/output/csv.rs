//! Comma-separated values, a line a row.

use super::cell::{TIMESTAMP, TIMESTAMP_TZ, cast_to_text};
use super::file_options::FileOptions;
use super::writer::{ByteSink, RowWriter};
use datafusion::arrow::array::new_null_array;
use datafusion::arrow::csv::{Writer, WriterBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use std::sync::Arc;

/// Writes CSV.
pub struct Csv {
    writer: Writer<ByteSink>,
    /// The columns as they are written: nested values as text.
    schema: SchemaRef,
}

impl Csv {
    /// A writer of rows with these columns. The line of names is written even if no row comes.
    ///
    /// # Errors
    /// `ArrowError` if that line cannot be written.
    pub fn new(schema: &SchemaRef, sink: ByteSink, options: &FileOptions) -> Result<Csv> {
        let fields = schema.fields().iter().map(|f| Field::new(f.name(), column_type(f.data_type()), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut writer = WriterBuilder::new()
            .with_header(options.header)
            .with_delimiter(options.delimiter)
            .with_null(options.null.clone())
            .with_timestamp_format(TIMESTAMP.into())
            .with_timestamp_tz_format(TIMESTAMP_TZ.into())
            .build(sink);
        let none = schema.fields().iter().map(|f| new_null_array(f.data_type(), 0)).collect();
        let no_rows = RecordBatchOptions::new().with_row_count(Some(0));
        writer.write(&RecordBatch::try_new_with_options(schema.clone(), none, &no_rows)?)?;
        Ok(Csv { writer, schema })
    }
}

/// The type of a column as it is written.
fn column_type(data_type: &DataType) -> DataType {
    match data_type.is_nested() {
        true => DataType::Utf8,
        false => data_type.clone(),
    }
}

impl RowWriter for Csv {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = rows.columns().iter().map(|column| match column.data_type().is_nested() {
            true => cast_to_text(column),
            false => Ok(column.clone()),
        });
        let count = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let columns = columns.collect::<Result<_>>()?;
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &count)?;
        Ok(self.writer.write(&rows)?)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(self.writer.into_inner().flush()?)
    }
}
