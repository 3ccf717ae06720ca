//! File formats, and the options that files are read with.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, plan_err};
use whimbrel_plan::Ranges;

/// A file format.
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
    /// The format of this name: `parquet`, `csv`, `json`, `arrow`.
    pub fn named(name: &str) -> Option<FileFormat> {
        [FileFormat::Parquet, FileFormat::Csv, FileFormat::Json, FileFormat::Ipc]
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// The name of the format.
    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Parquet => "parquet",
            FileFormat::Csv => "csv",
            FileFormat::Json => "json",
            FileFormat::Ipc => "arrow",
        }
    }

    /// The format that a suffix stands for.
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

/// Options for reading files; what is not set follows from the names and contents of the files.
///
/// ```
/// use whimbrel_sharded::dataset::ReadOptions;
///
/// let mut options = ReadOptions::default();
/// options.set("header", "false")?;
/// options.set("delim", ";")?;
/// assert_eq!((options.header, options.delimiter), (Some(false), Some(b';')));
/// assert!(options.set("quote", "'").is_err());
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The format of all files; by default that of their suffixes.
    pub format: Option<FileFormat>,
    /// The number of shards; one by default.
    pub shards: Option<usize>,
    /// The columns. CSV and JSON files are read with them; other files must have them.
    pub schema: Option<SchemaRef>,
    /// Whether the first line of a CSV file names the columns; true by default.
    pub header: Option<bool>,
    /// The delimiter of CSV files; a comma by default, a tab in `.tsv`.
    pub delimiter: Option<u8>,
    /// The ranges of a column of Parquet files that shards are cut by; evenly by default.
    pub ranges: Option<Ranges>,
}

impl ReadOptions {
    /// Sets an option by name: `header` (true or false), `delimiter` (one character), and the names that
    /// DuckDB and DataFusion have for them.
    ///
    /// # Errors
    /// `Plan` if there is no such option, or it cannot have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        // DataFusion puts this before its names.
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
