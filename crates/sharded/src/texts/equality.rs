//! Which texts of a column are equal to another.
//!
//! Arrow's kernel makes a slice of each text and compares it. Most differ in length or in their first bytes,
//! so here lengths are compared first, or views as the numbers that they are, of 64 rows without a branch;
//! bytes are looked at only where these are equal.

use datafusion::arrow::array::{
    Array, AsArray, GenericStringArray, OffsetSizeTrait, StringViewArray, make_view,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer};
use datafusion::arrow::datatypes::DataType;

/// The bytes of a text that lies in its view.
const INLINE_BYTES: usize = 12;

/// Which values are this text; none if they are no texts.
pub(super) fn equal(values: &dyn Array, text: &str) -> Option<BooleanBuffer> {
    match values.data_type() {
        DataType::Utf8 => Some(equal_by_length(values.as_string::<i32>(), text)),
        DataType::LargeUtf8 => Some(equal_by_length(values.as_string::<i64>(), text)),
        DataType::Utf8View => Some(equal_by_view(values.as_string_view(), text)),
        _ => None,
    }
}

fn equal_by_length<O: OffsetSizeTrait>(values: &GenericStringArray<O>, text: &str) -> BooleanBuffer {
    let Some(length) = O::from_usize(text.len()) else { return BooleanBuffer::new_unset(values.len()) };
    let (starts, ends) = (values.value_offsets(), &values.value_offsets()[1..]);
    let candidates = |first: usize, end: usize| {
        let bounds = starts[first..end].iter().zip(&ends[first..end]);
        mask(bounds.map(|(start, end)| *end - *start == length))
    };
    collect(values.len(), candidates, |row| values.value(row) == text)
}

fn equal_by_view(values: &StringViewArray, text: &str) -> BooleanBuffer {
    let (views, wanted) = (values.views(), make_view(text.as_bytes(), 0, 0));
    if text.len() <= INLINE_BYTES {
        let candidates =
            |first: usize, end: usize| mask(views[first..end].iter().map(|view| *view == wanted));
        return collect(values.len(), candidates, |_| true);
    }
    // The length and the first four bytes.
    let candidates =
        |first: usize, end: usize| mask(views[first..end].iter().map(|view| *view as u64 == wanted as u64));
    collect(values.len(), candidates, |row| values.value(row) == text)
}

/// A bit for each of at most 64 values, the first one in the lowest.
fn mask(values: impl Iterator<Item = bool>) -> u64 {
    values.enumerate().fold(0, |mask, (bit, value)| mask | u64::from(value) << bit)
}

/// The candidates among so many rows that are equal.
fn collect(
    rows: usize,
    candidates: impl Fn(usize, usize) -> u64,
    is_equal: impl Fn(usize) -> bool,
) -> BooleanBuffer {
    let of_word = |first: usize| {
        let candidates = candidates(first, rows.min(first + 64));
        let (mut equal, mut left) = (candidates, candidates);
        while left != 0 {
            let bit = left.trailing_zeros();
            if !is_equal(first + bit as usize) {
                equal ^= 1 << bit;
            }
            left &= left - 1;
        }
        equal
    };
    let words: Vec<u64> = (0..rows).step_by(64).map(of_word).collect();
    BooleanBuffer::new(Buffer::from_vec(words), 0, rows)
}
