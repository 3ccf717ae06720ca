//! A line a value, for rows that are too wide for a table.

use super::cell::{cell_texts, escape_control, width};
use super::writer::{ByteSink, RowWriter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::io::Write;

/// Writes a line a value, and an empty line between rows.
pub struct Line {
    /// The names of the columns, padded to the same width.
    names: Vec<String>,
    sink: ByteSink,
    is_first_row: bool,
}

impl Line {
    /// A writer of rows with these columns.
    pub fn new(schema: &SchemaRef, sink: ByteSink) -> Line {
        let names: Vec<String> = schema.fields().iter().map(|f| escape_control(f.name().clone())).collect();
        let widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
        let names = names.iter().map(|name| format!("{}{name}", " ".repeat(widest - width(name))));
        Line { names: names.collect(), sink, is_first_row: true }
    }
}

impl RowWriter for Line {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = cell_texts(rows)?;
        for i in 0..rows.num_rows() {
            if !std::mem::take(&mut self.is_first_row) {
                writeln!(self.sink)?;
            }
            for (name, column) in self.names.iter().zip(&columns) {
                writeln!(self.sink, "{name} = {}", column[i])?;
            }
        }
        Ok(self.sink.flush()?)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.sink.flush()?)
    }
}
