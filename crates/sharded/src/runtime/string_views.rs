//! String views that are sent: they bring all buffers along that they refer to, those of other rows too.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::Result;
use std::sync::Arc;

/// The rows, with the views copied that use less than half of their buffers.
///
/// # Errors
/// `ArrowError` if the columns do not fit the schema, which they did before.
pub fn compact(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => compact_views(column, column.as_string_view()),
        DataType::BinaryView => compact_views(column, column.as_binary_view()),
        _ => Arc::clone(column),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(rows.schema(), columns.collect(), &options)?)
}

fn compact_views<T: ByteViewType>(column: &ArrayRef, views: &GenericByteViewArray<T>) -> ArrayRef {
    let bytes: usize = views.data_buffers().iter().map(Buffer::len).sum();
    match views.total_buffer_bytes_used() < bytes / 2 {
        true => Arc::new(views.gc()),
        false => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::StringViewArray;

    #[test]
    fn views_bring_no_strings_of_other_rows() {
        let texts = (0..1000).map(|n| format!("a string that is not short, number {n}"));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let rows = RecordBatch::try_from_iter([("t", texts)]).unwrap();
        let bytes = |rows: &RecordBatch| -> usize {
            rows.column(0).as_string_view().data_buffers().iter().map(Buffer::len).sum()
        };
        let few = rows.slice(10, 3);
        assert_eq!(bytes(&few), bytes(&rows));
        let compacted = compact(&few).unwrap();
        assert_eq!(compacted, few);
        assert!(bytes(&compacted) < 200);
        assert_eq!(bytes(&compact(&rows).unwrap()), bytes(&rows));
    }
}
