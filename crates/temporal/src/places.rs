//! Rows by their places in batches. Arrow's kernels do not know how many rows there are where there are no
//! columns: rows without columns are only as many as they are.

use arrow::array::{RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{interleave_record_batch, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

/// The rows at these places, in this order.
///
/// # Errors
/// `ArrowError` if there is no such place.
pub fn take(rows: &RecordBatch, places: &UInt32Array) -> Result<RecordBatch, ArrowError> {
    match rows.num_columns() {
        0 => bare(rows.schema(), places.len()),
        _ => take_record_batch(rows, places),
    }
}

/// The rows at these places, each a batch and a row of it; there is a batch.
///
/// # Errors
/// `ArrowError` if there is no such place.
pub fn interleave(batches: &[&RecordBatch], places: &[(usize, usize)]) -> Result<RecordBatch, ArrowError> {
    match batches {
        [first, ..] if first.num_columns() == 0 => bare(first.schema(), places.len()),
        _ => interleave_record_batch(batches, places),
    }
}

fn bare(schema: SchemaRef, rows: usize) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new_with_options(schema, vec![], &RecordBatchOptions::new().with_row_count(Some(rows)))
}
