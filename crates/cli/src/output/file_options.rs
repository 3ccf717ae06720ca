//! The options of a file that a statement writes: `copy … to 'x.csv' (delimiter ';', header false)`.

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::parquet::basic::Compression;
use std::collections::BTreeMap;
use whimbrel_plan::names::nearest;

/// The names of the options.
const NAMES: [&str; 5] = ["compression", "delimiter", "header", "null", "row_group_size"];

/// How a file is written.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Whether a CSV file begins with the names of its columns.
    pub header: bool,
    /// The character between the values of a CSV file.
    pub delimiter: u8,
    /// The text of a null in a CSV file.
    pub null: String,
    /// The compression of the pages of a Parquet file.
    pub compression: Compression,
    /// The most rows of a row group of a Parquet file.
    pub row_group_size: Option<usize>,
    /// Whether Arrow's IPC format is that of streams, which can be read from a pipe.
    pub ipc_stream: bool,
}

impl Default for FileOptions {
    fn default() -> FileOptions {
        FileOptions {
            header: true,
            delimiter: b',',
            null: String::new(),
            compression: Compression::SNAPPY,
            row_group_size: None,
            ipc_stream: false,
        }
    }
}

impl FileOptions {
    /// The options of a statement.
    ///
    /// # Errors
    /// `Plan` if there is no such option, or its value is wrong.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<FileOptions> {
        let mut parsed = FileOptions::default();
        for (name, value) in options {
            // DataFusion's names of the same options begin with this word.
            match name.trim_start_matches("format.").to_ascii_lowercase().as_str() {
                "compression" | "codec" => parsed.compression = parse_compression(value)?,
                "delimiter" | "delim" | "sep" => parsed.delimiter = parse_delimiter(value)?,
                "header" | "has_header" => parsed.header = parse_bool(name, value)?,
                "null" | "null_value" | "nullstr" => parsed.null = value.clone(),
                "row_group_size" => parsed.row_group_size = Some(parse_rows(name, value)?),
                // The planner of the statement has read it.
                "format" => {}
                _ => return unknown_option(name),
            }
        }
        Ok(parsed)
    }
}

/// The error for an option that does not exist.
fn unknown_option<T>(name: &str) -> Result<T> {
    match nearest(name, &NAMES).first() {
        Some(near) => plan_err!("copy has no option {name:?}; did you mean {near:?}?"),
        None => plan_err!("copy has no option {name:?}; there are {}", NAMES.join(", ")),
    }
}

/// The codec of Parquet pages, with its level if it has one.
fn parse_compression(value: &str) -> Result<Compression> {
    let text = match value.to_ascii_lowercase().as_str() {
        "none" => "uncompressed".to_string(),
        // The parser wants a level with these names.
        "zstd" => "zstd(3)".to_string(),
        "gzip" => "gzip(6)".to_string(),
        "brotli" => "brotli(5)".to_string(),
        other => other.to_string(),
    };
    text.parse().map_err(|_| {
        plan_datafusion_err!("compression is none, snappy, zstd, gzip, lz4_raw or brotli, not {value:?}")
    })
}

/// One ASCII character.
fn parse_delimiter(value: &str) -> Result<u8> {
    match (value, value.as_bytes()) {
        ("\\t" | "tab", _) => Ok(b'\t'),
        (_, [one]) => Ok(*one),
        _ => plan_err!("delimiter is one ASCII character, or '\\t' for tabs, not {value:?}"),
    }
}

/// A boolean. An option without a value is true.
fn parse_bool(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "true" | "1" | "on" | "yes" => Ok(true),
        "false" | "0" | "off" | "no" => Ok(false),
        _ => plan_err!("{name} is true or false, not {value:?}"),
    }
}

/// A number of rows above zero.
fn parse_rows(name: &str, value: &str) -> Result<usize> {
    match value.parse() {
        Ok(size) if size > 0 => Ok(size),
        _ => plan_err!("{name} is a number of rows, at least one, not {value:?}"),
    }
}
