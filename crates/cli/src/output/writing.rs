//! What may be said of a file that is written: `copy … to 'x.csv' (delimiter ';', header false)`.

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::parquet::basic::Compression;
use std::collections::BTreeMap;
use whimbrel_plan::names::nearest;

/// The words that are known.
const KNOWN: [&str; 5] = ["compression", "delimiter", "header", "null", "row_group_size"];

/// How a file is written.
#[derive(Debug, Clone)]
pub struct Writing {
    /// Whether a CSV file begins with the names of its columns.
    pub header: bool,
    /// What stands between the values of a CSV file.
    pub delimiter: u8,
    /// What stands for a null in a CSV file.
    pub null: String,
    /// How the pages of a Parquet file are compressed.
    pub compression: Compression,
    /// How many rows a row group of a Parquet file has at most.
    pub row_group_size: Option<usize>,
    /// Whether an Arrow file is a stream, which whoever reads a pipe can read.
    pub stream: bool,
}

impl Default for Writing {
    fn default() -> Writing {
        Writing {
            header: true,
            delimiter: b',',
            null: String::new(),
            compression: Compression::SNAPPY,
            row_group_size: None,
            stream: false,
        }
    }
}

impl Writing {
    /// What a statement says.
    ///
    /// # Errors
    /// `Plan` if a word is not known, or a value makes no sense.
    pub fn of(options: &BTreeMap<String, String>) -> Result<Writing> {
        let mut writing = Writing::default();
        for (word, value) in options {
            // DataFusion's names for the same begin so.
            match word.trim_start_matches("format.").to_ascii_lowercase().as_str() {
                "compression" | "codec" => writing.compression = compression(value)?,
                "delimiter" | "delim" | "sep" => writing.delimiter = delimiter(value)?,
                "header" | "has_header" => writing.header = truth(word, value)?,
                "null" | "null_value" | "nullstr" => writing.null = value.clone(),
                "row_group_size" => writing.row_group_size = Some(size(word, value)?),
                // The statement's planner has read it.
                "format" => {}
                _ => return unknown(word),
            }
        }
        Ok(writing)
    }
}

fn unknown<T>(word: &str) -> Result<T> {
    match nearest(word, &KNOWN).first() {
        Some(near) => plan_err!("copy has no option {word:?}; did you mean {near:?}?"),
        None => plan_err!("copy has no option {word:?}; there are {}", KNOWN.join(", ")),
    }
}

fn compression(value: &str) -> Result<Compression> {
    let text = match value.to_ascii_lowercase().as_str() {
        "none" => "uncompressed".to_string(),
        // Their names have no level of their own in the parser.
        "zstd" => "zstd(3)".to_string(),
        "gzip" => "gzip(6)".to_string(),
        "brotli" => "brotli(5)".to_string(),
        other => other.to_string(),
    };
    text.parse().map_err(|_| {
        plan_datafusion_err!("compression is none, snappy, zstd, gzip, lz4_raw or brotli, not {value:?}")
    })
}

fn delimiter(value: &str) -> Result<u8> {
    match (value, value.as_bytes()) {
        ("\\t" | "tab", _) => Ok(b'\t'),
        (_, [one]) => Ok(*one),
        _ => plan_err!("delimiter is one ASCII character, or '\\t' for tabs, not {value:?}"),
    }
}

fn truth(word: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "true" | "1" | "on" | "yes" => Ok(true),
        "false" | "0" | "off" | "no" => Ok(false),
        _ => plan_err!("{word} is true or false, not {value:?}"),
    }
}

fn size(word: &str, value: &str) -> Result<usize> {
    match value.parse() {
        Ok(size) if size > 0 => Ok(size),
        _ => plan_err!("{word} is a number of rows, at least one, not {value:?}"),
    }
}
