//! The formats of results, and how they look.

use clap::ValueEnum;
use std::path::Path;

/// The format of a result.
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
    /// The format of a file, by the suffix of its name.
    pub fn of_path(path: &Path) -> Option<Format> {
        if let Some(format) = path.to_str().and_then(whimbrel_sql::Format::of_path) {
            return Some(format.into());
        }
        let suffix = path.extension()?.to_str()?.to_ascii_lowercase();
        matches!(suffix.as_str(), "md" | "markdown").then_some(Format::Markdown)
    }

    /// The name of the format.
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

    /// Whether a terminal can show it, and a file can hold several results one after the other.
    pub fn is_text(self) -> bool {
        !matches!(self, Format::Parquet | Format::Arrow)
    }

    /// Whether rows are written as they come, and not at the end.
    pub fn is_streamed(self) -> bool {
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
pub struct OutputOptions {
    /// The format. By default that of the file's suffix, else a table.
    pub format: Option<Format>,
    /// How many rows of a table are shown; 0 shows all.
    pub max_rows: usize,
    /// How wide a table may be. By default as wide as the terminal.
    pub max_width: Option<usize>,
}
