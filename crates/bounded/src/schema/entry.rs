//! Entries: the keys and values that a row has in an index.
//!
//! The key of an entry is the parts of the index and then, unless the index is unique, the rest of the
//! primary key. Its value is the version of the record that it was written for (8 bytes), and the key of that
//! record. Rows with a null in a unique key may repeat it, so their entries have the primary key behind them.

use super::index::{Index, IndexKind, Part};
use super::table::Table;
use crate::datum::Datum;
use crate::error::{Error, Result};
use crate::functions;
use crate::keys::{self, KeyOrder};
use datafusion::arrow::array::ArrayRef;

impl Index {
    /// The keys of a row in this index: one, or one for each word in an index of words.
    ///
    /// # Errors
    /// `Internal` if the columns are not those of the table.
    pub fn keys(&self, table: &Table, columns: &[ArrayRef], row: usize) -> Result<Vec<Vec<u8>>> {
        let mut keys = vec![self.prefix()];
        let mut null = false;
        for part in &self.parts {
            match &part.part {
                Part::Column(at) => {
                    let value = Datum::of(&columns[*at], row)?;
                    null |= value == Datum::Null;
                    keys.iter_mut().for_each(|key| keys::encode(value, part.order, key));
                }
                Part::Words(of) => {
                    let words = row_words(of, columns, row)?;
                    keys = keys
                        .iter()
                        .flat_map(|key| words.iter().map(|word| with_word(key, word, part.order)))
                        .collect();
                }
            }
        }
        if self.kind == IndexKind::Ordinary || (self.kind == IndexKind::Unique && null) {
            for part in &table.primary().parts {
                if self.kind == IndexKind::Ordinary
                    && self.parts.iter().any(|existing| existing.part == part.part)
                {
                    continue;
                }
                let Some(at) = part.column() else { continue };
                let value = Datum::of(&columns[at], row)?;
                keys.iter_mut().for_each(|key| keys::encode(value, part.order, key));
            }
        }
        Ok(keys)
    }
}

/// The words in some columns of a row.
fn row_words(of: &[usize], columns: &[ArrayRef], row: usize) -> Result<std::collections::BTreeSet<String>> {
    let mut texts = Vec::new();
    for at in of {
        if let Datum::Text(text) = Datum::of(&columns[*at], row)? {
            texts.push(text);
        }
    }
    Ok(functions::words(texts.into_iter()))
}

/// A key with a word behind it.
fn with_word(key: &[u8], word: &str, order: KeyOrder) -> Vec<u8> {
    let mut key = key.to_vec();
    keys::encode(Datum::Text(word), order, &mut key);
    key
}

/// The bit of a version that says that an entry is a claim: its record may not be there yet.
const CLAIM: u64 = 1 << 63;

/// The bits of a version.
pub(crate) const VERSIONS: u64 = CLAIM - 1;

/// The value of an entry: the version that it was written for, and the key of its record.
pub(crate) fn entry_value(version: u64, record: &[u8]) -> Vec<u8> {
    let mut value = (version & VERSIONS).to_le_bytes().to_vec();
    value.extend_from_slice(record);
    value
}

/// The value of the claim that becomes this entry.
pub(crate) fn claim_value(entry: &[u8]) -> Result<Vec<u8>> {
    let (version, record) = read_entry(entry)?;
    Ok([(version | CLAIM).to_le_bytes().as_slice(), record].concat())
}

/// Whether an entry is a claim: its writer wants this unique key, and has not settled it.
pub(crate) fn is_claim(value: &[u8]) -> bool {
    value.get(7).is_some_and(|last| last & 0x80 != 0)
}

/// The version and the record's key of an entry, or of a claim.
pub(crate) fn read_entry(value: &[u8]) -> Result<(u64, &[u8])> {
    let (version, record) = value
        .split_first_chunk::<8>()
        .ok_or_else(|| Error::Internal("an entry of an index is damaged: run repair".to_string()))?;
    Ok((u64::from_le_bytes(*version) & VERSIONS, record))
}
