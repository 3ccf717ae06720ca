//! The keys of groups as columns.

use crate::key::{KeyForm, Texts, array_of_words, decode_mixed, decode_rows};
use crate::values::copy_out;
use arrow::array::{ArrayRef, BinaryBuilder, NullBufferBuilder};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use datafusion::common::Result;

/// Key columns that are being built.
#[derive(Debug)]
pub(crate) enum KeyColumns {
    Unit,
    /// One column of words, and which of them are null.
    Words(Vec<u64>, NullBufferBuilder),
    /// The columns of tuples: those of the key, and which words of each row are null.
    Tuples(Vec<Vec<u64>>),
    /// Texts, or encoded rows, which are decoded when the columns are finished.
    Bytes(BinaryBuilder),
}

impl KeyColumns {
    /// Empty columns of these types.
    pub fn new(types: &[DataType]) -> KeyColumns {
        match KeyForm::of(types) {
            KeyForm::Unit => KeyColumns::Unit,
            KeyForm::Words => KeyColumns::Words(Vec::new(), NullBufferBuilder::new(0)),
            KeyForm::Tuples(width) => KeyColumns::Tuples(vec![Vec::new(); width]),
            KeyForm::Texts | KeyForm::Mixed | KeyForm::Bytes => KeyColumns::Bytes(BinaryBuilder::new()),
        }
    }

    /// The arrays; the columns are empty again.
    pub fn finish(&mut self, types: &[DataType]) -> Result<Vec<ArrayRef>> {
        match self {
            KeyColumns::Unit => Ok(Vec::new()),
            KeyColumns::Words(words, nulls) => {
                Ok(vec![array_of_words(copy_out(words), nulls.finish(), &types[0])?])
            }
            KeyColumns::Tuples(columns) => {
                let nulls = columns.last_mut().map(std::mem::take).unwrap_or_default();
                let column = |(place, (words, of)): (usize, (&mut Vec<u64>, &DataType))| {
                    array_of_words(copy_out(words), valid(&nulls, 1 << place), of)
                };
                columns.iter_mut().zip(types).enumerate().map(column).collect()
            }
            KeyColumns::Bytes(bytes) => match KeyForm::of(types) {
                KeyForm::Texts => Ok(vec![Texts::array_of(&bytes.finish(), &types[0])?]),
                KeyForm::Mixed => decode_mixed(types, &bytes.finish()),
                _ => decode_rows(types, bytes.finish()),
            },
        }
    }
}

/// The rows whose word is not null, which is what `bit` says; none: all.
fn valid(nulls: &[u64], bit: u64) -> Option<NullBuffer> {
    let is_null = |word: &u64| word & bit != 0;
    nulls.iter().any(is_null).then(|| nulls.iter().map(|word| !is_null(word)).collect())
}
