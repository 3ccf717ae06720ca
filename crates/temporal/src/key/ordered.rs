//! Keys that compare as their columns are sorted: ascending, nulls last.
//!
//! Invariant: the keys of all batches made by one [`KeyOrder`] have one form, so any two of them compare.

use super::words::{is_word, words_of};
use super::{encode_sorted, with_equal_floats};
use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::buffer::ScalarBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use serde::{Deserialize, Serialize};

/// Ascending, nulls last.
pub(crate) const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };

/// How the keys of some columns compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOrder {
    /// Words: one column of at most eight bytes without nulls, and no floats.
    Words,
    /// The order-preserving encoding of rows.
    Bytes,
}

/// The keys of a batch.
#[derive(Debug)]
pub(crate) enum OrderedKeys {
    Words(ScalarBuffer<u64>),
    Bytes(BinaryArray),
}

/// A key of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OrderedKey<'a> {
    Word(u64),
    Bytes(&'a [u8]),
}

/// A key without its batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum OwnedKey {
    Word(u64),
    Bytes(Vec<u8>),
}

impl KeyOrder {
    /// The order of keys of these types; `nulls`: whether a key may have one.
    pub fn of(types: &[DataType], nulls: bool) -> KeyOrder {
        match types {
            [one] if !nulls && is_word(one) && !one.is_floating() => KeyOrder::Words,
            _ => KeyOrder::Bytes,
        }
    }

    /// The keys that these columns make up.
    ///
    /// # Errors
    /// `ArrowError` if a column has no order.
    pub fn keys(self, columns: &[ArrayRef]) -> Result<OrderedKeys> {
        match (self, columns) {
            (KeyOrder::Words, [column]) => {
                debug_assert_eq!(column.null_count(), 0);
                Ok(OrderedKeys::Words(sorted_words(column)?))
            }
            _ => {
                let columns = columns.iter().map(with_equal_floats).collect::<Result<Vec<_>>>()?;
                Ok(OrderedKeys::Bytes(encode_sorted(&columns, ASCENDING)?))
            }
        }
    }
}

/// Words in the order of the values.
fn sorted_words(column: &ArrayRef) -> Result<ScalarBuffer<u64>> {
    let words = words_of(column)?;
    let is_unsigned = column.data_type().is_unsigned_integer() || column.data_type() == &DataType::Boolean;
    match is_unsigned {
        true => Ok(words),
        false => Ok(words.iter().map(|word| word ^ (1 << 63)).collect::<Vec<_>>().into()),
    }
}

impl OrderedKeys {
    /// The key of a row.
    #[inline]
    pub fn get(&self, row: usize) -> OrderedKey<'_> {
        match self {
            OrderedKeys::Words(words) => OrderedKey::Word(words[row]),
            OrderedKeys::Bytes(bytes) => OrderedKey::Bytes(bytes.value(row)),
        }
    }
}

impl OrderedKey<'_> {
    /// The same key without its batch.
    pub fn to_owned(self) -> OwnedKey {
        match self {
            OrderedKey::Word(word) => OwnedKey::Word(word),
            OrderedKey::Bytes(bytes) => OwnedKey::Bytes(bytes.to_vec()),
        }
    }
}

impl OwnedKey {
    /// The key, to compare it with those of batches.
    #[inline]
    pub fn get(&self) -> OrderedKey<'_> {
        match self {
            OwnedKey::Word(word) => OrderedKey::Word(*word),
            OwnedKey::Bytes(bytes) => OrderedKey::Bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::*;
    use std::sync::Arc;

    fn assert_ascending(columns: &[ArrayRef], nulls: bool, form: KeyOrder) {
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
        let order = KeyOrder::of(&types, nulls);
        assert_eq!(order, form, "{types:?}");
        let keys = order.keys(columns).unwrap();
        for row in 1..columns[0].len() {
            assert!(keys.get(row - 1) < keys.get(row), "{types:?}: row {row}");
            assert_eq!(keys.get(row).to_owned().get(), keys.get(row));
        }
    }

    #[test]
    fn keys_are_in_the_order_of_values() {
        let words: [ArrayRef; 6] = [
            Arc::new(Int64Array::from(vec![i64::MIN, -1, 0, 1, i64::MAX])),
            Arc::new(UInt64Array::from(vec![0, 1, u64::MAX / 2 + 1, u64::MAX])),
            Arc::new(Int8Array::from(vec![i8::MIN, -1, 0, i8::MAX])),
            Arc::new(BooleanArray::from(vec![false, true])),
            Arc::new(Date32Array::from(vec![i32::MIN, -1, 0, i32::MAX])),
            Arc::new(TimestampNanosecondArray::from(vec![-7, 0, 7])),
        ];
        for column in words {
            let column = std::slice::from_ref(&column);
            assert_ascending(column, false, KeyOrder::Words);
            assert_ascending(column, true, KeyOrder::Bytes);
        }
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(f64::NEG_INFINITY),
            Some(-1.5),
            Some(0.0),
            Some(f64::INFINITY),
            Some(f64::NAN),
            None,
        ]));
        assert_ascending(&[floats], true, KeyOrder::Bytes);
        let first: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(1), Some(2), None]));
        let second: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("a")]));
        assert_ascending(&[first, second], true, KeyOrder::Bytes);
    }

    #[test]
    fn equal_floats_are_one_key() {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.0, f64::NAN, -f64::NAN]));
        let keys = KeyOrder::Bytes.keys(&[column]).unwrap();
        assert!(keys.get(0) == keys.get(1) && keys.get(2) == keys.get(3));
    }
}
