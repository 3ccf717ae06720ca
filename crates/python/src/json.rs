//! Messages of JSON, one object each, to rows and back.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::arrow::json::writer::{LineDelimited, WriterBuilder};
use datafusion::arrow::json::{ReaderBuilder, reader::Decoder};
use datafusion::common::{Result, exec_datafusion_err};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

use crate::error::OrRaise;
use crate::shutdown::detach;
use crate::table::{NativeSchema, NativeTable};

/// The rows of messages, each of which is one object; what has no column is left out.
///
/// # Errors
/// `DataError` if a message is no object, or a value does not fit its column.
#[pyfunction]
pub fn parse_json(
    py: Python<'_>,
    messages: Vec<Bound<'_, PyBytes>>,
    schema: &NativeSchema,
) -> PyResult<NativeTable> {
    let bytes: Vec<&[u8]> = messages.iter().map(|message| message.as_bytes()).collect();
    let schema = Arc::clone(&schema.0);
    let parse = || -> Result<RecordBatch> {
        // Of as many rows at most, so it never flushes by itself.
        let builder = ReaderBuilder::new(Arc::clone(&schema)).with_batch_size(bytes.len() + 1);
        let mut decoder = builder.build_decoder()?;
        for (number, message) in bytes.iter().enumerate() {
            decode_object(&mut decoder, message, number)?;
        }
        Ok(decoder.flush()?.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&schema))))
    };
    let rows = detach(py, parse).or_raise()?;
    Ok(NativeTable { schema: rows.schema(), batches: vec![rows] })
}

/// Decodes a message, which has to be one object.
fn decode_object(decoder: &mut Decoder, message: &[u8], number: usize) -> Result<()> {
    let wrong = |reason: &str| exec_datafusion_err!("message {number} is no object of JSON: {reason}");
    let read = decoder.decode(message).map_err(|error| wrong(&error.to_string()))?;
    if read != message.len() || decoder.has_partial_record() {
        return Err(wrong("it is cut off"));
    }
    match decoder.len() {
        rows if rows == number + 1 => Ok(()),
        rows if rows > number + 1 => Err(wrong("it holds several")),
        _ => Err(wrong("it is empty")),
    }
}

/// Rows as messages: one object of JSON each, with all columns.
///
/// # Errors
/// `InvalidError` if a column has no form in JSON.
#[pyfunction]
pub fn format_json<'py>(py: Python<'py>, table: &NativeTable) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let format = || -> Result<Vec<u8>> {
        let rows = concat_batches(&table.schema, &table.batches)?;
        let builder = WriterBuilder::new().with_explicit_nulls(true);
        let mut writer = builder.build::<_, LineDelimited>(Vec::new());
        writer.write(&rows)?;
        writer.finish()?;
        Ok(writer.into_inner())
    };
    let lines = detach(py, format).or_raise()?;
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(|line| PyBytes::new(py, line)).collect())
}
