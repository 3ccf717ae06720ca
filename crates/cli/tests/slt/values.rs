//! Arrow values as the text that stands in test files.
//!
//! Null is `NULL`, an empty text `(empty)`. Files in the manner of SQLite say of each column how its values
//! are written, whatever their type: `I` a whole number, `R` three digits after the point, `T` text.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::common::cast::as_float64_array;
use sqllogictest::{ColumnType, DefaultColumnType};

/// How the columns of an answer are written: as their types say, or as SQLite's letters do.
#[derive(Debug, Clone, Default)]
pub enum Letters {
    /// As their types say.
    #[default]
    Types,
    /// As the letters say.
    Sqlite(Vec<DefaultColumnType>),
}

const FORMAT: FormatOptions<'static> = FormatOptions::new()
    .with_null("NULL")
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));

/// The rows of a batch, a text a value.
pub fn rows(batch: &RecordBatch, letters: &Letters) -> Result<Vec<Vec<String>>> {
    let mut columns = Vec::new();
    for (i, column) in batch.columns().iter().enumerate() {
        columns.push(match letters {
            Letters::Types => typed(column)?,
            Letters::Sqlite(letters) => lettered(column, letters.get(i).map_or('T', ColumnType::to_char))?,
        });
    }
    Ok((0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect())
}

/// Values as their type has them.
fn typed(column: &ArrayRef) -> Result<Vec<String>> {
    let formatter = ArrayFormatter::try_new(column, &FORMAT)?;
    let text = |row| match formatter.value(row).to_string() {
        text if text.is_empty() => "(empty)".to_string(),
        text => text,
    };
    Ok((0..column.len()).map(text).collect())
}

/// Values as SQLite hands them out when it is asked for a letter.
fn lettered(column: &ArrayRef, letter: char) -> Result<Vec<String>> {
    let number = column.data_type().is_numeric() || column.data_type() == &DataType::Boolean;
    if column.data_type().is_integer() && letter != 'R' {
        return typed(column);
    }
    if !number {
        return Ok(typed(column)?.into_iter().map(|text| printable(text, letter)).collect());
    }
    let floats = cast_with_options(column, &DataType::Float64, &CastOptions::default())?;
    let floats = as_float64_array(&floats)?;
    let boolean = column.data_type() == &DataType::Boolean;
    let text = |value: Option<f64>| match (value, letter) {
        (None, _) => "NULL".to_string(),
        (Some(value), 'R') => format!("{value:.3}"),
        // A cast of a float to an integer cuts what is behind the point, as SQLite does.
        (Some(value), 'I') => (value as i64).to_string(),
        (Some(value), _) if boolean => (value as i64).to_string(),
        (Some(value), _) => format!("{value:?}"),
    };
    Ok(floats.iter().map(text).collect())
}

/// A text where a number is asked for is the number that it begins with; where a text is asked for, what
/// cannot be printed is `@`.
fn printable(text: String, letter: char) -> String {
    if text == "NULL" || text == "(empty)" && letter == 'T' {
        return text;
    }
    match letter {
        'I' => leading(&text).map_or("0".to_string(), |value| (value as i64).to_string()),
        'R' => format!("{:.3}", leading(&text).unwrap_or(0.0)),
        _ => text.chars().map(|c| if (' '..='~').contains(&c) { c } else { '@' }).collect(),
    }
}

fn leading(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    text[..end].parse().ok()
}
