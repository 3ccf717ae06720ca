//! Columns of any types as bytes, a row after the other.

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;

/// The row encoding of several columns, or of one whose type has no word form.
pub(crate) fn encode_rows(arrays: &[ArrayRef]) -> Result<BinaryArray> {
    encode_sorted(arrays, SortOptions::default())
}

/// The same, so that the bytes have this order.
pub(crate) fn encode_sorted(arrays: &[ArrayRef], order: SortOptions) -> Result<BinaryArray> {
    let field = |array: &ArrayRef| SortField::new_with_options(array.data_type().clone(), order);
    Ok(RowConverter::new(arrays.iter().map(field).collect())?.convert_columns(arrays)?.try_into_binary()?)
}

/// The columns whose row encoding `bytes` is.
pub(crate) fn decode_rows(types: &[DataType], bytes: BinaryArray) -> Result<Vec<ArrayRef>> {
    let converter = RowConverter::new(types.iter().map(|t| SortField::new(t.clone())).collect())?;
    let rows = converter.from_binary(bytes);
    // Dictionaries come back as their values.
    let typed = |(array, to): (ArrayRef, &DataType)| {
        if array.data_type() == to { Ok(array) } else { cast(&array, to) }
    };
    Ok(converter
        .convert_rows(&rows)?
        .into_iter()
        .zip(types)
        .map(typed)
        .collect::<std::result::Result<_, _>>()?)
}
