//! Several columns of words and of texts, as one key, read in place: a key is encoded when its group is made.
//!
//! Invariants: an encoded key is words of eight bytes, which are those that its hash is made of. The first
//! has a bit for each column that is null; then comes a word of each column, or the length of its text, the
//! whole words of the text, and its last word if that is none of these. What is null is 0, or empty. So keys
//! are equal exactly if their encodings are.

use super::bytes::{WordHasher, last_word};
use super::texts::{Texts, is_text};
use super::words::{array_of_words, is_word, words_of};
use arrow::array::{Array, ArrayRef, BinaryArray, BinaryBuilder};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

/// As many columns as a word has bits.
const MOST_COLUMNS: usize = u64::BITS as usize;

/// Whether keys of these types are mixed.
pub(super) fn are_mixed(types: &[DataType]) -> bool {
    (2..=MOST_COLUMNS).contains(&types.len()) && types.iter().all(|of| is_word(of) || is_text(of))
}

#[derive(Debug, Clone)]
enum Column {
    Words(ScalarBuffer<u64>),
    Texts(Texts),
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct MixedRows {
    columns: Vec<Column>,
    /// Which columns of each row are null.
    nulls: ScalarBuffer<u64>,
}

impl MixedRows {
    /// The rows of these columns.
    pub fn of(arrays: &[ArrayRef]) -> Result<MixedRows> {
        let mut nulls = vec![0; arrays.first().map_or(0, |array| array.len())];
        for (place, array) in arrays.iter().enumerate() {
            if let Some(valid) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
                let rows = nulls.iter_mut().zip(&valid).filter(|(_, is_valid)| !is_valid);
                rows.for_each(|(nulls, _)| *nulls |= 1 << place);
            }
        }
        let column = |array: &ArrayRef| {
            Ok(match is_text(array.data_type()) {
                true => Column::Texts(Texts::of(array)?),
                false => Column::Words(words_of(array)?),
            })
        };
        Ok(MixedRows { columns: arrays.iter().map(column).collect::<Result<_>>()?, nulls: nulls.into() })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Some of the rows.
    pub fn slice(&self, offset: usize, rows: usize) -> MixedRows {
        let column = |column: &Column| match column {
            Column::Words(words) => Column::Words(words.slice(offset, rows)),
            Column::Texts(texts) => Column::Texts(texts.slice(offset, rows)),
        };
        MixedRows {
            columns: self.columns.iter().map(column).collect(),
            nulls: self.nulls.slice(offset, rows),
        }
    }

    /// Gives the words of a row's encoding, as long as they are wanted; whether all were.
    #[inline(always)]
    fn words(&self, row: usize, mut wants: impl FnMut(u64) -> bool) -> bool {
        let nulls = self.nulls[row];
        if !wants(nulls) {
            return false;
        }
        for (place, column) in self.columns.iter().enumerate() {
            let is_null = nulls >> place & 1 == 1;
            let is_wanted = match column {
                Column::Words(words) => wants(if is_null { 0 } else { words[row] }),
                Column::Texts(_) if is_null => wants(0),
                Column::Texts(texts) => {
                    let text = texts.value(row);
                    let (words, rest) = text.as_chunks::<8>();
                    wants(text.len() as u64)
                        && words.iter().all(|word| wants(u64::from_le_bytes(*word)))
                        && (rest.is_empty() || wants(last_word(text)))
                }
            };
            if !is_wanted {
                return false;
            }
        }
        true
    }

    /// The hash of each row: that of its encoding.
    pub fn hashes(&self) -> Vec<u32> {
        let hash = |row| {
            let (mut hasher, mut words, mut last) = (WordHasher::new(), 0, 0);
            self.words(row, |word| {
                hasher.add(word);
                words += 1;
                last = word;
                true
            });
            hasher.finish(last, 8 * words)
        };
        (0..self.len()).map(hash).collect()
    }

    /// Whether a row's encoding is this one.
    #[inline]
    pub fn is_encoded(&self, row: usize, encoded: &[u8]) -> bool {
        let mut encoded = encoded.as_chunks::<8>().0.iter();
        self.words(row, |word| encoded.next().is_some_and(|own| u64::from_le_bytes(*own) == word))
            && encoded.next().is_none()
    }

    /// Appends a row's encoding.
    pub fn encode(&self, row: usize, out: &mut Vec<u8>) {
        self.words(row, |word| {
            out.extend_from_slice(&word.to_le_bytes());
            true
        });
    }
}

/// The columns of these types whose encoded rows these are.
///
/// # Errors
/// `Execution` if the bytes are not such rows.
pub(crate) fn decode_mixed(types: &[DataType], rows: &BinaryArray) -> Result<Vec<ArrayRef>> {
    let mut rest: Vec<&[[u8; 8]]> = (0..rows.len()).map(|row| rows.value(row).as_chunks().0).collect();
    let nulls = rest.iter_mut().map(next_word).collect::<Result<Vec<u64>>>()?;
    let column = |(place, of): (usize, &DataType)| {
        let is_null = |row: usize| nulls[row] >> place & 1 == 1;
        match is_text(of) {
            true => decode_texts(&mut rest, is_null, of),
            false => {
                let words = rest.iter_mut().map(next_word).collect::<Result<Vec<u64>>>()?;
                let valid: NullBuffer = (0..words.len()).map(|row| !is_null(row)).collect();
                array_of_words(words, Some(valid).filter(|valid| valid.null_count() > 0), of)
            }
        }
    };
    types.iter().enumerate().map(column).collect()
}

/// The next column of all rows, which is one of texts.
fn decode_texts(rest: &mut [&[[u8; 8]]], is_null: impl Fn(usize) -> bool, of: &DataType) -> Result<ArrayRef> {
    let (mut texts, mut text) = (BinaryBuilder::new(), Vec::new());
    for (row, rest) in rest.iter_mut().enumerate() {
        let length = next_word(rest)? as usize;
        let Some((words, after)) = rest.split_at_checked(length.div_ceil(8)) else { return cut_short() };
        *rest = after;
        decode_text(words, length, &mut text);
        match is_null(row) {
            true => texts.append_null(),
            false => texts.append_value(&text),
        }
    }
    Texts::array_of(&texts.finish(), of)
}

/// Puts the bytes of a text, so many, whose words these are, in the place of another.
fn decode_text(words: &[[u8; 8]], length: usize, text: &mut Vec<u8>) {
    let (whole, rest) = (length / 8, length % 8);
    text.clear();
    text.extend_from_slice(words[..whole].as_flattened());
    if let Some(last) = words.get(whole) {
        // The last word of a text that has whole ones ends where the text does.
        text.extend_from_slice(if whole > 0 { &last[8 - rest..] } else { &last[..rest] });
    }
}

fn next_word(rest: &mut &[[u8; 8]]) -> Result<u64> {
    let Some((first, after)) = rest.split_first() else { return cut_short() };
    *rest = after;
    Ok(u64::from_le_bytes(*first))
}

fn cut_short<T>() -> Result<T> {
    exec_err!("the key of a group is cut short")
}
