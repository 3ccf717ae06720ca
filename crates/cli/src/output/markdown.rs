//! A table as Markdown has it: cells are as wide as they are, so that rows are written as they come.

use super::cell::{columns, is_right, visible};
use super::{Bytes, Rows};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::io::Write;

/// Writes Markdown.
pub struct Markdown {
    to: Bytes,
}

impl Markdown {
    /// A table with these columns.
    pub fn new(schema: &SchemaRef, mut to: Bytes) -> Result<Markdown> {
        let names = schema.fields().iter().map(|f| visible(f.name().clone()));
        let rules = schema.fields().iter().map(|f| if is_right(f.data_type()) { "---:" } else { "---" });
        to.write_all(row(names).as_bytes())?;
        to.write_all(row(rules.map(str::to_string)).as_bytes())?;
        Ok(Markdown { to })
    }
}

fn row(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

impl Rows for Markdown {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = columns(rows)?;
        for i in 0..rows.num_rows() {
            self.to.write_all(row(columns.iter().map(|column| column[i].clone())).as_bytes())?;
        }
        Ok(self.to.flush()?)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.to.flush()?)
    }
}
