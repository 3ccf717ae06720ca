//! Rows as text and as files: one file a format, and [`Target`], which says where they go.

mod arrow;
mod cell;
mod csv;
mod fit;
mod json;
mod line;
mod markdown;
mod parquet;
mod table;
mod target;
mod terminal;
mod writing;

pub use target::{Shown, Target};
pub use writing::Writing;

use clap::ValueEnum;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::io::Write;
use std::path::Path;

/// The form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A frame with names, types and the first and last rows.
    Table,
    /// Values between commas, a line a row, after a line of names.
    Csv,
    /// A JSON object a line.
    #[value(aliases = ["jsonl", "ndjson"])]
    Json,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow's IPC format.
    #[value(aliases = ["ipc", "feather"])]
    Arrow,
    /// A table as Markdown has it.
    Markdown,
    /// A line a value.
    #[value(aliases = ["lines", "vertical"])]
    Line,
}

impl Format {
    /// What a file of this name is meant to be, if its suffix says so.
    pub fn of_path(path: &Path) -> Option<Format> {
        if let Some(format) = path.to_str().and_then(whimbrel_sql::Format::of_path) {
            return Some(format.into());
        }
        let suffix = path.extension()?.to_str()?.to_ascii_lowercase();
        matches!(suffix.as_str(), "md" | "markdown").then_some(Format::Markdown)
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Table => "table",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
            Format::Markdown => "markdown",
            Format::Line => "line",
        }
    }

    /// Whether several results in a row still make sense, and a terminal can show them.
    pub fn is_text(self) -> bool {
        !matches!(self, Format::Parquet | Format::Arrow)
    }

    /// Whether rows are written as they come, and not at the end.
    pub fn streams(self) -> bool {
        !matches!(self, Format::Table)
    }
}

impl From<whimbrel_sql::Format> for Format {
    fn from(format: whimbrel_sql::Format) -> Format {
        match format {
            whimbrel_sql::Format::Parquet => Format::Parquet,
            whimbrel_sql::Format::Csv => Format::Csv,
            whimbrel_sql::Format::Json => Format::Json,
            whimbrel_sql::Format::Arrow => Format::Arrow,
        }
    }
}

/// How results look.
#[derive(Debug, Clone)]
pub struct Look {
    /// Their form; if nothing is said, the file's name says it, else it is a table.
    pub format: Option<Format>,
    /// How many rows of a table are shown; all, if 0.
    pub max_rows: usize,
    /// How wide a table may be; if nothing is said, as wide as the terminal.
    pub max_width: Option<usize>,
}

/// Takes the rows of a result.
pub trait Rows: Send {
    /// Takes more rows.
    fn write(&mut self, rows: &RecordBatch) -> Result<()>;

    /// There are no more rows. Everything is written.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// A place that bytes go to.
pub type Bytes = Box<dyn Write + Send>;

/// Something that writes rows of these columns in a format.
fn rows(
    format: Format,
    schema: &SchemaRef,
    to: Bytes,
    look: &Look,
    writing: &Writing,
) -> Result<Box<dyn Rows>> {
    Ok(match format {
        Format::Table => Box::new(table::Table::new(schema.clone(), to, look)),
        Format::Csv => Box::new(csv::Csv::new(schema, to, writing)?),
        Format::Json => Box::new(json::Json::new(to)),
        Format::Parquet => Box::new(parquet::Parquet::new(schema, to, writing)?),
        Format::Arrow => Box::new(arrow::Arrow::new(schema, to, writing)?),
        Format::Markdown => Box::new(markdown::Markdown::new(schema, to)?),
        Format::Line => Box::new(line::Line::new(schema, to)),
    })
}
