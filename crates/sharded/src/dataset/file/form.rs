//! What kinds of files there are, and how they are read.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use whimbrel_plan::Ranges;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Values between commas.
    Csv,
    /// A JSON object a line.
    Json,
    /// Apache Arrow's IPC format, file or stream.
    Ipc,
}

impl FileFormat {
    /// The kind of this name: `parquet`, `csv`, `json`, `arrow`.
    pub fn named(name: &str) -> Option<FileFormat> {
        [FileFormat::Parquet, FileFormat::Csv, FileFormat::Json, FileFormat::Ipc]
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// The name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Parquet => "parquet",
            FileFormat::Csv => "csv",
            FileFormat::Json => "json",
            FileFormat::Ipc => "arrow",
        }
    }

    /// The kind that a suffix tells.
    pub(super) fn of(suffix: &str) -> Option<FileFormat> {
        match suffix {
            "parquet" | "pq" => Some(FileFormat::Parquet),
            "csv" | "tsv" | "txt" => Some(FileFormat::Csv),
            "json" | "jsonl" | "ndjson" => Some(FileFormat::Json),
            "arrow" | "arrows" | "ipc" | "feather" => Some(FileFormat::Ipc),
            _ => None,
        }
    }
}

/// How files are read, where their names and contents do not say it.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The kind of all files.
    pub format: Option<FileFormat>,
    /// In how many shards; one, if nothing is said.
    pub shards: Option<usize>,
    /// The columns of CSV and JSON files; those of others have to be the same.
    pub schema: Option<SchemaRef>,
    /// Whether the first line of CSV files names the columns; yes, if nothing is said.
    pub header: Option<bool>,
    /// What stands between the values of CSV files: a comma, if nothing is said.
    pub delimiter: Option<u8>,
    /// By which values of a column of Parquet files shards are cut; evenly, if nothing is said.
    pub ranges: Option<Ranges>,
}

impl ReadOptions {
    /// Sets what is asked for by name: `header` (true or false), `delimiter` (one character).
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        // DataFusion's names for the same begin so.
        match name.trim_start_matches("format.") {
            "header" | "has_header" => match value.to_ascii_lowercase().parse() {
                Ok(header) => self.header = Some(header),
                Err(_) => return plan_err!("{name} is true or false, not {value:?}"),
            },
            "delimiter" | "delim" | "sep" => match value.as_bytes() {
                [delimiter] => self.delimiter = Some(*delimiter),
                b"\\t" => self.delimiter = Some(b'\t'),
                _ => return plan_err!("{name} is one character, not {value:?}"),
            },
            _ => {
                return plan_err!(
                    "files are not read with an option {name:?}; there are header and delimiter"
                );
            }
        }
        Ok(())
    }
}
