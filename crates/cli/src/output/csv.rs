//! Values between commas, a line a row.

use super::cell::{TIMESTAMP, TIMESTAMP_TZ, as_texts};
use super::{Bytes, Rows, Writing};
use datafusion::arrow::array::new_null_array;
use datafusion::arrow::csv::{Writer, WriterBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use std::sync::Arc;

/// Writes CSV.
pub struct Csv {
    writer: Writer<Bytes>,
    /// The columns as they are written: what a line cannot hold is written as text.
    schema: SchemaRef,
}

impl Csv {
    /// A file with these columns. Its first line has their names even if no row comes.
    pub fn new(schema: &SchemaRef, to: Bytes, writing: &Writing) -> Result<Csv> {
        let fields = schema.fields().iter().map(|f| Field::new(f.name(), flat(f.data_type()), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut writer = WriterBuilder::new()
            .with_header(writing.header)
            .with_delimiter(writing.delimiter)
            .with_null(writing.null.clone())
            .with_timestamp_format(TIMESTAMP.into())
            .with_timestamp_tz_format(TIMESTAMP_TZ.into())
            .build(to);
        let none = schema.fields().iter().map(|f| new_null_array(f.data_type(), 0)).collect();
        let no_rows = RecordBatchOptions::new().with_row_count(Some(0));
        writer.write(&RecordBatch::try_new_with_options(schema.clone(), none, &no_rows)?)?;
        Ok(Csv { writer, schema })
    }
}

/// A type that a value of a CSV file can have.
fn flat(data_type: &DataType) -> DataType {
    match data_type.is_nested() {
        true => DataType::Utf8,
        false => data_type.clone(),
    }
}

impl Rows for Csv {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = rows.columns().iter().map(|column| match column.data_type().is_nested() {
            true => as_texts(column),
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
