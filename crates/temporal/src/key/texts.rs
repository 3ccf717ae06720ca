//! A column of texts, read in place.

use super::bytes::hash_bytes;
use super::words::NULL_HASH;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, LargeStringArray, StringArray, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::Result;

/// Texts in one of Arrow's layouts. Equal ones have equal bytes in all of them.
#[derive(Debug, Clone)]
pub(crate) enum Texts {
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
}

/// Calls a function with what reads a row's bytes.
macro_rules! by_layout {
    ($texts:expr, $value:ident => $call:expr) => {
        match $texts {
            $crate::key::Texts::Utf8(texts) => {
                let $value = |row: usize| texts.value(row).as_bytes();
                $call
            }
            $crate::key::Texts::LargeUtf8(texts) => {
                let $value = |row: usize| texts.value(row).as_bytes();
                $call
            }
            $crate::key::Texts::Utf8View(texts) => {
                let $value = |row: usize| texts.value(row).as_bytes();
                $call
            }
        }
    };
}
pub(crate) use by_layout;

/// Whether keys of this type are texts: those of a dictionary are.
pub(super) fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

impl Texts {
    /// The texts of a column.
    pub fn of(array: &ArrayRef) -> Result<Texts> {
        Ok(match array.data_type() {
            DataType::Utf8 => Texts::Utf8(array.as_string().clone()),
            DataType::LargeUtf8 => Texts::LargeUtf8(array.as_string().clone()),
            DataType::Utf8View => Texts::Utf8View(array.as_string_view().clone()),
            _ => Texts::Utf8(cast(array, &DataType::Utf8)?.as_string().clone()),
        })
    }

    /// The column of a type of texts that has these bytes.
    ///
    /// # Errors
    /// `ArrowError` if they are no texts.
    pub fn array_of(bytes: &BinaryArray, of: &DataType) -> Result<ArrayRef> {
        let texts = cast(bytes, &DataType::Utf8)?;
        Ok(if texts.data_type() == of { texts } else { cast(&texts, of)? })
    }

    /// The bytes of a row. Where the row is null they mean nothing.
    #[inline(always)]
    pub fn value(&self, row: usize) -> &[u8] {
        by_layout!(self, value => value(row))
    }

    /// The column.
    fn array(&self) -> &dyn Array {
        match self {
            Texts::Utf8(texts) => texts,
            Texts::LargeUtf8(texts) => texts,
            Texts::Utf8View(texts) => texts,
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.array().len()
    }

    /// Which rows are null; none: no row.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.array().nulls().filter(|nulls| nulls.null_count() > 0)
    }

    /// The hash of each row.
    pub fn hashes(&self) -> Vec<u32> {
        by_layout!(self, value => match self.nulls() {
            None => (0..self.len()).map(|row| hash_bytes(value(row))).collect(),
            Some(nulls) => {
                let hash = |(row, valid)| if valid { hash_bytes(value(row)) } else { NULL_HASH };
                nulls.iter().enumerate().map(hash).collect()
            }
        })
    }

    /// Some of the rows.
    pub fn slice(&self, offset: usize, rows: usize) -> Texts {
        match self {
            Texts::Utf8(texts) => Texts::Utf8(texts.slice(offset, rows)),
            Texts::LargeUtf8(texts) => Texts::LargeUtf8(texts.slice(offset, rows)),
            Texts::Utf8View(texts) => Texts::Utf8View(texts.slice(offset, rows)),
        }
    }
}
