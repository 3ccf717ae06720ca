//! The keys of groups as columns.

use crate::key::{array_of_words, decode_rows, is_word};
use crate::values::copy_out;
use arrow::array::{ArrayRef, BinaryBuilder, NullBufferBuilder};
use arrow::datatypes::DataType;
use datafusion::common::Result;

/// Key columns that are being built.
#[derive(Debug)]
pub(crate) enum KeyColumns {
    Unit,
    /// One column of words, and which of them are null.
    Words(Vec<u64>, NullBufferBuilder),
    /// Row encodings, which are decoded when the columns are finished.
    Bytes(BinaryBuilder),
}

impl KeyColumns {
    /// Empty columns of these types.
    pub fn new(types: &[DataType]) -> KeyColumns {
        match types {
            [] => KeyColumns::Unit,
            _ if is_word(types) => KeyColumns::Words(Vec::new(), NullBufferBuilder::new(0)),
            _ => KeyColumns::Bytes(BinaryBuilder::new()),
        }
    }

    /// The arrays; the columns are empty again.
    pub fn finish(&mut self, types: &[DataType]) -> Result<Vec<ArrayRef>> {
        match self {
            KeyColumns::Unit => Ok(Vec::new()),
            KeyColumns::Words(words, nulls) => {
                Ok(vec![array_of_words(copy_out(words), nulls.finish(), &types[0])?])
            }
            KeyColumns::Bytes(bytes) => decode_rows(types, bytes.finish()),
        }
    }
}
