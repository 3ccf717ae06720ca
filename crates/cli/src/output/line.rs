//! A line a value, for rows that are too wide for any table.

use super::cell::{columns, visible, width};
use super::{Bytes, Rows};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::io::Write;

/// Writes a line a value, and an empty one between rows.
pub struct Line {
    names: Vec<String>,
    to: Bytes,
    first: bool,
}

impl Line {
    /// Rows with these columns.
    pub fn new(schema: &SchemaRef, to: Bytes) -> Line {
        let names: Vec<String> = schema.fields().iter().map(|f| visible(f.name().clone())).collect();
        let widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
        let names = names.iter().map(|name| format!("{}{name}", " ".repeat(widest - width(name))));
        Line { names: names.collect(), to, first: true }
    }
}

impl Rows for Line {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = columns(rows)?;
        for i in 0..rows.num_rows() {
            if !std::mem::take(&mut self.first) {
                writeln!(self.to)?;
            }
            for (name, column) in self.names.iter().zip(&columns) {
                writeln!(self.to, "{name} = {}", column[i])?;
            }
        }
        Ok(self.to.flush()?)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.to.flush()?)
    }
}
