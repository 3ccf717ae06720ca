//! What a session asks of whoever can open files and keep rows.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result, plan_err};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use whimbrel_plan::Source;

/// Opens what a query names.
pub trait Files: Send + Sync {
    /// A file, glob, directory or URL, in the given or guessed format. Several locations are joined by
    /// newlines.
    ///
    /// # Errors
    /// `Plan` if the location or an option makes no sense, `Execution` if there is no such file or it is
    /// broken; both name the location.
    fn open(&self, location: &str, options: &FileOptions) -> Result<Arc<dyn Source>>;

    /// Whether this names a folder, whose files are read as one table.
    fn is_folder(&self, _location: &str) -> bool {
        false
    }

    /// A table in memory of these rows.
    ///
    /// # Errors
    /// `Plan` if a batch has not the columns of the schema.
    fn table(&self, schema: SchemaRef, rows: Vec<RecordBatch>) -> Result<Arc<dyn Source>>;
}

/// How a file is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// What kind of file it is, if its name does not tell.
    pub format: Option<Format>,
    /// In how many shards it is read; one, if nothing is said.
    pub shards: Option<usize>,
    /// The columns, if they were declared: their names and types.
    pub schema: Option<SchemaRef>,
    /// What else was said of it: `delimiter`, `header`.
    pub options: BTreeMap<String, String>,
}

/// A kind of file.
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

    /// The name by which it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Arrow => "arrow",
        }
    }

    /// What a file of this name is, by its suffix; files of lines may be packed: `x.csv.gz`, `x.jsonl.zst`.
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
