//! JSON lines: an object a line. Types are inferred from the first rows, unless they were declared.

use super::location::Location;
use super::parquet::Batches;
use super::position::Position;
use super::text::{self, Text};
use super::{Opened, Unit};
use crate::dataset::Reader;
use crate::error::in_place;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::json::ReaderBuilder;
use datafusion::arrow::json::reader::infer_json_schema;
use datafusion::common::{Result, exec_err};
use std::io::BufReader;
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
}

/// Opens a file: infers its columns, unless they were declared.
///
/// # Errors
/// `Execution` if it cannot be read or has no columns.
pub(super) fn open(location: &Location, declared: Option<&SchemaRef>) -> Result<Opened> {
    let schema = match declared {
        Some(schema) => Arc::clone(schema),
        None => {
            let input = BufReader::new(text::peek(location, SAMPLE_BYTES)?.0);
            let (schema, _) =
                infer_json_schema(input, Some(SAMPLE_ROWS)).map_err(|e| in_place(location, e))?;
            Arc::new(schema)
        }
    };
    if schema.fields().is_empty() {
        return exec_err!("`{location}` has no columns; every line is a JSON object");
    }
    let file = Arc::new(File { location: location.clone(), schema: schema.clone() });
    Ok(Opened { schema, units: vec![Unit::Json { file }], rows: None })
}

/// Reads a file.
///
/// # Errors
/// If it cannot be opened.
pub(super) fn read(file: &File, projection: Option<&[usize]>, batch_rows: usize) -> Result<Box<dyn Reader>> {
    read_text(file, text::open(&file.location)?, projection, batch_rows)
}

/// Reads text as a part of a file.
///
/// # Errors
/// If there is no such column.
pub(super) fn read_text(
    file: &File,
    (text, position): (Text, Position),
    projection: Option<&[usize]>,
    batch_rows: usize,
) -> Result<Box<dyn Reader>> {
    // The reader skips what is not in the schema, and gives columns in its order.
    let schema: Schema = match projection {
        Some(columns) => file.schema.project(columns)?,
        None => file.schema.as_ref().clone(),
    };
    let input = BufReader::new(text);
    let reader = ReaderBuilder::new(Arc::new(schema)).with_batch_size(batch_rows).build(input);
    let batches = reader.map_err(|e| in_place(&file.location, e))?;
    Ok(Box::new(Batches { location: file.location.clone(), batches, order: None, position }))
}
