//! Batches that hold the memory of their own rows and no more.
//!
//! A slice keeps the whole batch that it was cut from, and a column of string views the buffers of all
//! strings that were read with it. Whoever keeps such batches holds more memory than they account for, or
//! accounts for more than their rows take.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, MutableArrayData, RecordBatch, RecordBatchOptions,
    make_array,
};
use datafusion::arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::Result;
use std::sync::Arc;

/// A column is copied if its buffers hold more than this many times the memory of its rows.
const MAX_OVERHEAD: usize = 2;

/// Copies the columns whose buffers are much larger than their rows.
///
/// # Errors
/// `ArrowError` if the columns do not fit the schema.
pub(crate) fn compact(rows: &RecordBatch) -> Result<RecordBatch> {
    with_columns(rows, |column| compact_strings(column).unwrap_or_else(|| compact_column(column)))
}

/// Copies the columns of string views whose buffers are much larger than their strings. Whoever writes such a
/// column writes all that is in its buffers.
///
/// # Errors
/// `ArrowError` if the columns do not fit the schema.
pub(crate) fn compact_views(rows: &RecordBatch) -> Result<RecordBatch> {
    with_columns(rows, |column| compact_strings(column).unwrap_or_else(|| Arc::clone(column)))
}

fn with_columns(rows: &RecordBatch, column: impl Fn(&ArrayRef) -> ArrayRef) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(column).collect();
    let count = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(rows.schema(), columns, &count)?)
}

/// Whether buffers of `held` bytes are too large for rows that use this many of them.
fn is_oversized(held: usize, used: usize) -> bool {
    held > MAX_OVERHEAD * used
}

/// A column of views, in a buffer of its own if its buffers are too large; none if it is another column.
fn compact_strings(column: &ArrayRef) -> Option<ArrayRef> {
    match column.data_type() {
        DataType::Utf8View => Some(compact_strings_of(column, column.as_string_view())),
        DataType::BinaryView => Some(compact_strings_of(column, column.as_binary_view())),
        _ => None,
    }
}

/// A column of views, in a buffer of its own if its buffers are much larger than its strings.
pub(crate) fn compact_strings_of<T: ByteViewType>(
    column: &ArrayRef,
    views: &GenericByteViewArray<T>,
) -> ArrayRef {
    let buffers: usize = views.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    let used = views.total_buffer_bytes_used() + size_of_val(&views.views()[..]);
    match is_oversized(buffers + views.views().inner().capacity(), used) {
        true => Arc::new(views.gc()),
        false => Arc::clone(column),
    }
}

/// Any other column, in buffers of its own if its buffers are too large.
fn compact_column(column: &ArrayRef) -> ArrayRef {
    let data = column.to_data();
    // A column whose size is unknown is not copied.
    let used = data.get_slice_memory_size().unwrap_or(usize::MAX / MAX_OVERHEAD);
    if !is_oversized(column.get_buffer_memory_size(), used) {
        return Arc::clone(column);
    }
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    match copy.try_extend(0, 0, data.len()) {
        Ok(()) => make_array(copy.freeze()),
        Err(_) => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, StringArray, StringViewArray};

    #[test]
    fn a_slice_holds_its_rows_only() {
        let texts = || (0..10_000).map(|i| format!("a text that is not short, number {i}"));
        let columns: [(&str, ArrayRef); 3] = [
            ("n", Arc::new(Int64Array::from_iter_values(0..10_000))),
            ("t", Arc::new(StringArray::from_iter_values(texts()))),
            ("v", Arc::new(StringViewArray::from_iter_values(texts()))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let slice = rows.slice(777, 100);
        let small = compact(&slice).unwrap();
        assert_eq!(small, slice);
        assert!(small.get_array_memory_size() < slice.get_array_memory_size() / 50);
        let same = compact(&rows).unwrap();
        assert!((0..2).all(|i| Arc::ptr_eq(same.column(i), rows.column(i))), "nothing is copied in vain");
    }
}
