//! A Markdown table. Cells are not padded, so that rows are written as they come.

use super::cell::{cell_texts, escape_control, is_right_aligned};
use super::writer::{ByteSink, RowWriter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::io::Write;

/// Writes Markdown.
pub struct Markdown {
    sink: ByteSink,
}

impl Markdown {
    /// A writer of rows with these columns.
    ///
    /// # Errors
    /// `IoError` if the header cannot be written.
    pub fn new(schema: &SchemaRef, mut sink: ByteSink) -> Result<Markdown> {
        let names = schema.fields().iter().map(|f| escape_control(f.name().clone()));
        let alignments =
            schema.fields().iter().map(|f| if is_right_aligned(f.data_type()) { "---:" } else { "---" });
        sink.write_all(row(names).as_bytes())?;
        sink.write_all(row(alignments.map(str::to_string)).as_bytes())?;
        Ok(Markdown { sink })
    }
}

/// A row of a table.
fn row(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

impl RowWriter for Markdown {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let columns = cell_texts(rows)?;
        for i in 0..rows.num_rows() {
            self.sink.write_all(row(columns.iter().map(|column| column[i].clone())).as_bytes())?;
        }
        Ok(self.sink.flush()?)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.sink.flush()?)
    }
}
