//! CSV files with a header. Types are inferred from the first rows.

use super::parquet::Batches;
use super::{Opened, Unit};
use crate::dataset::Reader;
use crate::error::in_file;
use datafusion::arrow::csv::ReaderBuilder;
use datafusion::arrow::csv::reader::Format;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many rows a type is inferred from.
const SAMPLE: usize = 20_000;

/// A file and what its columns are.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    schema: SchemaRef,
}

pub(super) fn open(path: &Path) -> Result<Opened> {
    let input = std::fs::File::open(path).map_err(|e| in_file(path, e))?;
    let (schema, _) = Format::default()
        .with_header(true)
        .infer_schema(input, Some(SAMPLE))
        .map_err(|e| in_file(path, e))?;
    if schema.fields().is_empty() {
        return exec_err!("`{}` is empty; the first line of a CSV file names its columns", path.display());
    }
    let schema = Arc::new(schema);
    let file = Arc::new(File { path: path.to_path_buf(), schema: schema.clone() });
    Ok(Opened { schema, units: vec![Unit::Csv { file }], rows: None })
}

pub(super) fn read(file: &File, projection: Option<&[usize]>, batch_rows: usize) -> Result<Box<dyn Reader>> {
    let input = std::fs::File::open(&file.path).map_err(|e| in_file(&file.path, e))?;
    let mut builder = ReaderBuilder::new(file.schema.clone()).with_header(true).with_batch_size(batch_rows);
    if let Some(columns) = projection {
        builder = builder.with_projection(columns.to_vec());
    }
    let batches = builder.build(input).map_err(|e| in_file(&file.path, e))?;
    Ok(Box::new(Batches { path: file.path.clone(), batches, order: None }))
}
