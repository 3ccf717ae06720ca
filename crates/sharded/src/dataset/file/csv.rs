//! CSV files. Names come from the first line, types are inferred from the first rows, unless they were
//! declared.

use super::location::Location;
use super::parquet::Batches;
use super::position::Position;
use super::quotes::Quotes;
use super::text::{self, Text};
use super::{Opened, ReadOptions, Unit};
use crate::dataset::Reader;
use crate::error::in_place;
use datafusion::arrow::csv::ReaderBuilder;
use datafusion::arrow::csv::reader::Format;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, exec_err};
use std::sync::Arc;

/// How many rows types are inferred from.
const SAMPLE_ROWS: usize = 20_000;

/// How many bytes of an object are fetched to infer types.
const SAMPLE_BYTES: u64 = 4 << 20;

/// A file and its columns.
#[derive(Debug)]
pub(super) struct File {
    pub location: Location,
    pub schema: SchemaRef,
    pub header: bool,
    delimiter: u8,
}

impl File {
    /// A file with these columns.
    pub fn new(location: &Location, schema: SchemaRef, options: &ReadOptions) -> File {
        let tabs = location.suffix().as_deref() == Some("tsv");
        let delimiter = options.delimiter.unwrap_or(if tabs { b'\t' } else { b',' });
        File { location: location.clone(), schema, header: options.header.unwrap_or(true), delimiter }
    }
}

/// Opens a file: infers its columns, unless they were declared.
///
/// # Errors
/// `Execution` if it cannot be read or has no columns.
pub(super) fn open(location: &Location, options: &ReadOptions) -> Result<Opened> {
    let File { header, delimiter, .. } = File::new(location, Arc::new(Schema::empty()), options);
    let format = Format::default().with_header(header).with_delimiter(delimiter);
    let schema = match &options.schema {
        Some(schema) => Arc::clone(schema),
        None => {
            let (input, is_complete) = text::peek(location, SAMPLE_BYTES)?;
            let input: Text = if is_complete { Box::new(Quotes::new(input, delimiter)) } else { input };
            let (schema, _) =
                format.infer_schema(input, Some(SAMPLE_ROWS)).map_err(|e| in_place(location, e))?;
            Arc::new(schema)
        }
    };
    if schema.fields().is_empty() {
        return exec_err!("`{location}` is empty; the first line of a CSV file names its columns");
    }
    let file = Arc::new(File::new(location, schema.clone(), options));
    Ok(Opened { schema, units: vec![Unit::Csv { file }], rows: None })
}

/// Reads a file.
///
/// # Errors
/// If it cannot be opened.
pub(super) fn read(file: &File, projection: Option<&[usize]>, batch_rows: usize) -> Result<Box<dyn Reader>> {
    read_text(file, text::open(&file.location)?, file.header, projection, batch_rows)
}

/// Reads text as a part of a file, which begins with the names of the columns or not.
///
/// # Errors
/// If there is no such column.
pub(super) fn read_text(
    file: &File,
    (text, position): (Text, Position),
    header: bool,
    projection: Option<&[usize]>,
    batch_rows: usize,
) -> Result<Box<dyn Reader>> {
    let mut builder = ReaderBuilder::new(file.schema.clone())
        .with_header(header)
        .with_delimiter(file.delimiter)
        .with_batch_size(batch_rows);
    if let Some(columns) = projection {
        builder = builder.with_projection(columns.to_vec());
    }
    let input = Quotes::new(text, file.delimiter);
    let batches = builder.build(input).map_err(|e| in_place(&file.location, e))?;
    let schema = Arc::clone(&file.schema);
    let batches = batches.map(move |batch| batch.map_err(|error| named(error, &schema)));
    Ok(Box::new(Batches { location: file.location.clone(), batches, order: None, position }))
}

/// Checks that the first line of a text names the columns of the file.
///
/// # Errors
/// `Execution` if it names others.
pub(super) fn check_header(file: &File, first_line: &[u8]) -> Result<()> {
    let format = Format::default().with_header(true).with_delimiter(file.delimiter);
    let (found, _) = format.infer_schema(first_line, Some(0)).map_err(|e| in_place(&file.location, e))?;
    let names = |schema: &Schema| schema.fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
    let (found, expected) = (names(&found), names(&file.schema));
    match found == expected {
        true => Ok(()),
        false => exec_err!(
            "`{}` has the columns {}; the files before it have {}",
            file.location,
            found.join(", "),
            expected.join(", ")
        ),
    }
}

/// The error of the reader with the name of the column, of which it knows the number only.
fn named(error: ArrowError, schema: &Schema) -> ArrowError {
    let ArrowError::ParseError(message) = error else { return error };
    let number =
        message.split_once(" for column ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    match number.and_then(|number: usize| schema.fields().get(number)) {
        Some(field) => ArrowError::ParseError(format!("column `{}`: {message}", field.name())),
        None => ArrowError::ParseError(message),
    }
}
