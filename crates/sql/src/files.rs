//! The interface of the caller of a session, who opens files and keeps rows.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result, plan_err};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use whimbrel_plan::Source;

/// Opens the files that queries name, and keeps the rows of tables in memory.
pub trait Files: Send + Sync {
    /// A file, glob, directory or URL, in the given or guessed format. Several locations are joined by
    /// newlines.
    ///
    /// # Errors
    /// `Plan` if the location or an option makes no sense, `Execution` if the file does not exist or cannot
    /// be read; both name the location.
    fn open(&self, location: &str, options: &FileOptions) -> Result<Arc<dyn Source>>;

    /// Whether this names a folder, whose files are read as one table.
    fn is_folder(&self, _location: &str) -> bool {
        false
    }

    /// A table in memory of these rows.
    ///
    /// # Errors
    /// `Plan` if a batch has other columns than the schema.
    fn table(&self, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<Arc<dyn Source>>;
}

/// How a file is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// The format; by default that of the suffix.
    pub format: Option<Format>,
    /// In how many shards it is read; one by default.
    pub shards: Option<usize>,
    /// The names and types of columns, if they were declared.
    pub schema: Option<SchemaRef>,
    /// Other options: `delimiter`, `header`.
    pub options: BTreeMap<String, String>,
}

/// A file format.
///
/// ```
/// use whimbrel_sql::Format;
///
/// assert_eq!(Format::of_path("logs/2024.jsonl.zst"), Some(Format::Json));
/// assert_eq!("parquet".parse::<Format>().unwrap(), Format::Parquet);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Values between commas, a line a row.
    Csv,
    /// A JSON object a line.
    Json,
    /// Apache Arrow's IPC format.
    Arrow,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Parquet, Format::Csv, Format::Json, Format::Arrow];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Arrow => "arrow",
        }
    }

    /// The format of a file by the suffix of its name; files of lines may be compressed: `x.csv.gz`.
    pub fn of_path(path: &str) -> Option<Format> {
        let file = path.rsplit(['/', '\\']).next()?.to_ascii_lowercase();
        let unpacked =
            [".gz", ".gzip", ".zst", ".zstd"].iter().find_map(|packing| file.strip_suffix(packing));
        let (_, suffix) = unpacked.unwrap_or(&file).rsplit_once('.')?;
        match suffix {
            "csv" | "tsv" | "txt" => Some(Format::Csv),
            "json" | "jsonl" | "ndjson" => Some(Format::Json),
            _ if unpacked.is_some() => None,
            "parquet" | "pq" => Some(Format::Parquet),
            "arrow" | "arrows" | "ipc" | "feather" => Some(Format::Arrow),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Format> {
        match text.to_ascii_lowercase().as_str() {
            "parquet" => Ok(Format::Parquet),
            "csv" => Ok(Format::Csv),
            "json" | "jsonl" | "ndjson" => Ok(Format::Json),
            "arrow" | "ipc" | "feather" => Ok(Format::Arrow),
            other => plan_err!("there is no file format {other:?}; there are parquet, csv, json and arrow"),
        }
    }
}
