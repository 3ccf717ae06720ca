//! Several columns of words, as one key.
//!
//! Invariants: the last column holds a bit for each of the others, which is set where that one is null; a
//! word that is null is 0. So two rows are equal exactly if all their words are.

use super::words::{fold, is_word, words_of};
use arrow::array::{Array, ArrayRef};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use datafusion::common::Result;

/// The most columns whose words are compared one by one.
const MOST_COLUMNS: usize = 4;

/// Calls a function whose constant parameter is the number of words of a tuple; `$otherwise` if there are no
/// tuples of so many.
macro_rules! by_width {
    ($width:expr, $on:ident.$method:ident($($argument:expr),*), $otherwise:expr) => {
        match $width {
            3 => $on.$method::<3>($($argument),*),
            4 => $on.$method::<4>($($argument),*),
            5 => $on.$method::<5>($($argument),*),
            _ => $otherwise,
        }
    };
}
pub(crate) use by_width;

/// How many words a tuple of columns of these types has; none if they are no tuples.
pub(super) fn tuple_width(types: &[DataType]) -> Option<usize> {
    let is_tuple = (2..=MOST_COLUMNS).contains(&types.len()) && types.iter().all(is_word);
    is_tuple.then(|| types.len() + 1)
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Tuples {
    columns: Vec<ScalarBuffer<u64>>,
    rows: usize,
}

impl Tuples {
    /// The rows of these columns of words.
    pub fn of(arrays: &[ArrayRef]) -> Result<Tuples> {
        let rows = arrays.first().map_or(0, |array| array.len());
        let mut nulls = vec![0; rows];
        let columns = arrays.iter().enumerate().map(|(place, array)| {
            let words = words_of(array)?;
            Ok(match array.nulls().filter(|nulls| nulls.null_count() > 0) {
                Some(valid) => without_nulls(&words, valid, 1 << place, &mut nulls),
                None => words,
            })
        });
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        columns.push(nulls.into());
        Ok(Tuples { columns, rows })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// How many words each has.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The words of all rows, by column; none if there are not so many columns.
    pub fn columns<const W: usize>(&self) -> Option<[&[u64]; W]> {
        let columns: [Option<&[u64]>; W] =
            std::array::from_fn(|place| self.columns.get(place).map(|column| &column[..self.rows]));
        (self.columns.len() == W).then(|| columns.map(Option::unwrap_or_default))
    }

    /// The hash of each row.
    pub fn hashes(&self) -> Vec<u32> {
        by_width!(self.columns.len(), self.hashes_of(), Vec::new())
    }

    fn hashes_of<const W: usize>(&self) -> Vec<u32> {
        let Some(columns) = self.columns::<W>() else { return Vec::new() };
        (0..self.rows).map(|row| hash_tuple(&columns.map(|column| column[row]))).collect()
    }

    /// Some of the rows.
    pub fn slice(&self, offset: usize, rows: usize) -> Tuples {
        Tuples { columns: self.columns.iter().map(|column| column.slice(offset, rows)).collect(), rows }
    }
}

/// The words with 0 where there are none, for which `bit` is set in `nulls`.
fn without_nulls(words: &[u64], valid: &NullBuffer, bit: u64, nulls: &mut [u64]) -> ScalarBuffer<u64> {
    let rows = words.iter().zip(valid).zip(nulls);
    rows.map(|((word, is_valid), nulls)| {
        *nulls |= if is_valid { 0 } else { bit };
        if is_valid { *word } else { 0 }
    })
    .collect()
}

/// Mixes the words of a tuple. Saved tables of groups hold these hashes, see
/// [`hash_word`](super::words::hash_word).
#[inline(always)]
pub(crate) fn hash_tuple(words: &[u64]) -> u32 {
    (words.iter().fold(0x1319_8a2e_0370_7344, |state, word| fold(state ^ word)) >> 32) as u32
}
