//! Single keys of a store: read, and changed by test-and-set.

use crate::error::{Error, Result};
use crate::mutation::RowChange;
use crate::record;
use crate::schema::IndexKind;
use crate::store::{Condition, Found, Outcome, Read, Store, Write};

/// Whether a record makes this entry.
pub(super) fn has_key(change: &RowChange, record: &[u8], key: &[u8]) -> Result<bool> {
    let row = record::batch(&change.table, std::iter::once(record))?;
    for index in change.table.indexes.iter().filter(|index| index.kind != IndexKind::Primary) {
        if index.keys(&change.table, row.columns(), 0)?.iter().any(|existing| existing == key) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Test-and-set of one key.
pub(super) fn set(store: &dyn Store, key: &[u8], from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> Result<bool> {
    let condition = Condition::Same { key: key.to_vec(), value: from };
    let write = match to {
        Some(value) => Write::Put(key.to_vec(), value),
        None => Write::Delete(key.to_vec()),
    };
    Ok(store.commit(&[condition], &[write])? == Outcome::Done)
}

/// The values of some keys.
pub(super) fn values(store: &dyn Store, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
    let requests: Vec<Read> = keys.iter().cloned().map(Read::Get).collect();
    read(store, &requests)?.map(value).collect()
}

/// The answers to some requests.
pub(super) fn read(store: &dyn Store, requests: &[Read]) -> Result<std::vec::IntoIter<Found>> {
    if requests.is_empty() {
        return Ok(vec![].into_iter());
    }
    let found = store.read(requests)?;
    match found.len() == requests.len() {
        true => Ok(found.into_iter()),
        false => Err(unexpected_answer()),
    }
}

/// The value that an answer is.
pub(super) fn value(found: Found) -> Result<Option<Vec<u8>>> {
    match found {
        Found::Value(value) => Ok(value),
        _ => Err(unexpected_answer()),
    }
}

/// The error for an answer of another kind than its request. It is a bug of the store.
pub(super) fn unexpected_answer() -> Error {
    Error::Internal("the store gave another answer than was asked for".to_string())
}
