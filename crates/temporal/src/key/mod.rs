//! The grouping key of a batch: computed once from some of its columns, with its hashes, and carried along.
//!
//! Invariants: two rows of any two batches of a stream have equal key values (words, texts and nulls, or
//! bytes) exactly if their key columns are equal, nulls being equal to nulls, -0.0 to 0.0 and every NaN to
//! every other; the hash depends on the value only, not on the batch, process or machine, so that it can
//! decide to which shard a row goes.
//!
//! Where a row has to be found again, as the start edge of an end edge, its columns are told apart to the bit
//! ([`Key::exact`]): floats that are equal are still not the same row.

mod bytes;
mod floats;
mod mixed;
mod ordered;
mod rows;
mod texts;
mod tuples;
mod words;

pub(crate) use bytes::{equal_bytes, hash_bytes};
pub(crate) use floats::{has_floats, with_equal_floats};
pub(crate) use mixed::{MixedRows, decode_mixed};
pub(crate) use ordered::{ASCENDING, KeyOrder, OrderedKey, OrderedKeys, OwnedKey};
pub(crate) use rows::{decode_rows, encode_rows, encode_sorted};
pub(crate) use texts::{Texts, by_layout};
pub(crate) use tuples::{Tuples, by_width, hash_tuple};
pub(crate) use words::{array_of_words, hash_word, words_of};

use arrow::array::{Array, ArrayRef, BinaryArray, RecordBatch};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use mixed::are_mixed;
use std::sync::OnceLock;
use texts::is_text;
use tuples::tuple_width;
use words::{NULL_HASH, is_word};

/// In which form keys of some types are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// No key columns: every row is in the one group.
    Unit,
    /// One column of at most eight bytes.
    Words,
    /// Some such columns, with so many words a row.
    Tuples(usize),
    /// One column of texts.
    Texts,
    /// Several columns of words or texts.
    Mixed,
    /// Anything else.
    Bytes,
}

impl KeyForm {
    /// The form of keys of these types.
    pub fn of(types: &[DataType]) -> KeyForm {
        match types {
            [] => KeyForm::Unit,
            [one] if is_word(one) => KeyForm::Words,
            [one] if is_text(one) => KeyForm::Texts,
            several => match tuple_width(several) {
                Some(width) => KeyForm::Tuples(width),
                None if are_mixed(several) => KeyForm::Mixed,
                None => KeyForm::Bytes,
            },
        }
    }
}

/// The values of a key, in one of the forms.
#[derive(Debug, Clone)]
pub(crate) enum KeyValues {
    /// No key columns: every row is in the one group.
    Unit(usize),
    /// One column of at most eight bytes. An integer column lends its buffer.
    Words(ScalarBuffer<u64>, Option<NullBuffer>),
    /// A few such columns.
    Tuples(Tuples),
    /// One column of texts.
    Texts(Texts),
    /// Several columns of words or texts.
    Mixed(MixedRows),
    /// Anything else: the columns' order-preserving row encoding.
    Bytes(BinaryArray),
}

/// The grouping key of the rows of one batch (trill.txt §5.1).
#[derive(Debug)]
pub struct Key {
    columns: Vec<usize>,
    values: KeyValues,
    /// Made when they are asked for: where keys are words, groups are found without them.
    hashes: OnceLock<Vec<u32>>,
}

impl Key {
    /// The key made of these columns of a batch.
    ///
    /// # Errors
    /// `ArrowError` if a column's type has no equality.
    pub fn of(rows: &RecordBatch, columns: &[usize]) -> Result<Key> {
        let arrays = columns.iter().map(|&c| with_equal_floats(rows.column(c))).collect::<Result<_>>()?;
        Key::made(columns, arrays, rows.num_rows())
    }

    /// The same, but two floats are equal only if their bits are.
    pub(crate) fn exact(rows: &RecordBatch, columns: &[usize]) -> Result<Key> {
        Key::made(columns, columns.iter().map(|&c| rows.column(c).clone()).collect(), rows.num_rows())
    }

    /// The key of these arrays, whose floats are already as they are to be compared.
    fn made(columns: &[usize], arrays: Vec<ArrayRef>, rows: usize) -> Result<Key> {
        let types: Vec<DataType> = arrays.iter().map(|a| a.data_type().clone()).collect();
        let values = match KeyForm::of(&types) {
            KeyForm::Unit => KeyValues::Unit(rows),
            KeyForm::Words => {
                let nulls = arrays[0].nulls().filter(|nulls| nulls.null_count() > 0);
                KeyValues::Words(words_of(&arrays[0])?, nulls.cloned())
            }
            KeyForm::Tuples(_) => KeyValues::Tuples(Tuples::of(&arrays)?),
            KeyForm::Texts => KeyValues::Texts(Texts::of(&arrays[0])?),
            KeyForm::Mixed => KeyValues::Mixed(MixedRows::of(&arrays)?),
            KeyForm::Bytes => KeyValues::Bytes(encode_rows(&arrays)?),
        };
        Ok(Key { columns: columns.to_vec(), values, hashes: OnceLock::new() })
    }

    /// The columns that make up the key.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// How many rows it is of.
    pub(crate) fn len(&self) -> usize {
        match &self.values {
            KeyValues::Unit(rows) => *rows,
            KeyValues::Words(words, _) => words.len(),
            KeyValues::Tuples(tuples) => tuples.len(),
            KeyValues::Texts(texts) => texts.len(),
            KeyValues::Mixed(rows) => rows.len(),
            KeyValues::Bytes(bytes) => bytes.len(),
        }
    }

    pub(crate) fn values(&self) -> &KeyValues {
        &self.values
    }

    /// Which rows have a null in their key: these equal nothing in a join, though they are a group of their
    /// own.
    pub(crate) fn nulls(rows: &RecordBatch, columns: &[usize]) -> Option<NullBuffer> {
        let nulls = columns.iter().map(|&c| rows.column(c).logical_nulls());
        nulls
            .fold(None, |all, one| NullBuffer::union(all.as_ref(), one.as_ref()))
            .filter(|n| n.null_count() > 0)
    }

    /// The same values under other column numbers, after a projection.
    pub(crate) fn renumbered(&self, columns: Vec<usize>) -> Key {
        Key { columns, values: self.values.clone(), hashes: self.hashes.clone() }
    }

    /// The hash of every row's key; computed at the first call.
    pub fn hashes(&self) -> &[u32] {
        self.hashes.get_or_init(|| match &self.values {
            KeyValues::Unit(rows) => vec![0; *rows],
            KeyValues::Words(words, None) => words.iter().map(|&w| hash_word(w)).collect(),
            KeyValues::Words(words, Some(nulls)) => words
                .iter()
                .zip(nulls)
                .map(|(&w, valid)| if valid { hash_word(w) } else { NULL_HASH })
                .collect(),
            KeyValues::Tuples(tuples) => tuples.hashes(),
            KeyValues::Texts(texts) => texts.hashes(),
            KeyValues::Mixed(rows) => rows.hashes(),
            KeyValues::Bytes(bytes) => (0..bytes.len()).map(|row| hash_bytes(bytes.value(row))).collect(),
        })
    }

    /// The same key for some of the rows, one after another.
    pub(crate) fn slice(&self, offset: usize, len: usize) -> Key {
        let values = match &self.values {
            KeyValues::Unit(_) => KeyValues::Unit(len),
            KeyValues::Words(words, nulls) => KeyValues::Words(
                words.slice(offset, len),
                nulls.as_ref().map(|n| n.slice(offset, len)).filter(|n| n.null_count() > 0),
            ),
            KeyValues::Tuples(tuples) => KeyValues::Tuples(tuples.slice(offset, len)),
            KeyValues::Texts(texts) => KeyValues::Texts(texts.slice(offset, len)),
            KeyValues::Mixed(rows) => KeyValues::Mixed(rows.slice(offset, len)),
            KeyValues::Bytes(bytes) => KeyValues::Bytes(bytes.slice(offset, len)),
        };
        let hashes = OnceLock::new();
        if let Some(all) = self.hashes.get() {
            let _ = hashes.set(all[offset..offset + len].to_vec());
        }
        Key { columns: self.columns.clone(), values, hashes }
    }
}
