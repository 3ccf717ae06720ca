//! A change key by key, in the paper's order (piql.txt §7.2): new entries, the record, stale entries.
//!
//! Every step is safe to stop behind: an entry without its record is passed over by readers. A stale entry is deleted
//! by test-and-set against the value that it had before the record was written, so an entry that another writer has put
//! there since stays.

use super::Written;
use super::change::{Added, Change, Limited};
use crate::error::{Error, Result};
use crate::rows;
use crate::schema::{IndexKind, read_entry};
use crate::store::{Condition, Found, Outcome, Read, Store, Write};

pub(super) fn apply(store: &dyn Store, changes: &[Change]) -> Result<Written> {
    let mut done = 0;
    for change in changes {
        if !one(store, change)? {
            // What was written stays: without transactions a statement of several rows is several statements.
            return if done == 0 {
                Ok(Written::Again)
            } else {
                Err(Error::Unavailable(format!(
                    "somebody else changed a row of {} meanwhile; {done} of {} rows were written",
                    change.table.name,
                    changes.len()
                )))
            };
        }
        done += 1;
    }
    Ok(Written::Rows(done))
}

/// Makes one change; `false` if the row was changed by somebody else.
fn one(store: &dyn Store, change: &Change) -> Result<bool> {
    if let Some(says) = dangling(store, change)? {
        return Err(Error::Data(says));
    }
    let stale = values(store, &change.removed)?;
    for added in change.added.iter().filter(|added| added.unique.is_some()) {
        reserve(store, change, added)?;
    }
    let ordinary = change.added.iter().filter(|added| added.unique.is_none());
    let puts: Vec<Write> = ordinary.map(|added| Write::Put(added.key.clone(), added.value.clone())).collect();
    if !puts.is_empty() {
        store.commit(&[], &puts)?;
    }
    if !set(store, &change.key, change.before.clone(), change.after.clone())? {
        return Ok(false);
    }
    if let Some(says) = violated(store, change)? {
        take_back(store, change)?;
        return Err(Error::Data(says));
    }
    for (key, value) in change.removed.iter().zip(stale) {
        if let Some(value) = value {
            set(store, key, Some(value), None)?;
        }
    }
    Ok(true)
}

/// Test-and-set of one key.
fn set(store: &dyn Store, key: &[u8], from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> Result<bool> {
    let condition = Condition::Same { key: key.to_vec(), value: from };
    let write = match to {
        Some(value) => Write::Put(key.to_vec(), value),
        None => Write::Delete(key.to_vec()),
    };
    Ok(store.commit(&[condition], &[write])? == Outcome::Done)
}

fn values(store: &dyn Store, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
    if keys.is_empty() {
        return Ok(vec![]);
    }
    let requests: Vec<Read> = keys.iter().cloned().map(Read::Get).collect();
    let found = store.read(&requests)?.into_iter();
    Ok(found.map(|found| if let Found::Value(value) = found { value } else { None }).collect())
}

/// The reference that would point at nothing.
fn dangling(store: &dyn Store, change: &Change) -> Result<Option<String>> {
    let keys: Vec<Vec<u8>> = change.references.iter().map(|(key, _)| key.clone()).collect();
    for (value, (key, says)) in values(store, &keys)?.into_iter().zip(&change.references) {
        if value.is_none() && *key != change.key {
            return Ok(Some(says.clone()));
        }
    }
    for (from, to, says) in &change.referring {
        let count = Read::Count { from: from.clone(), to: to.clone(), up_to: 1 };
        if store.read(&[count])? != [Found::Count(0)] {
            return Ok(Some(says.clone()));
        }
    }
    Ok(None)
}

/// Takes a unique key: if it is free, or if the row that it was taken for is not there or has another by now.
fn reserve(store: &dyn Store, change: &Change, added: &Added) -> Result<()> {
    if set(store, &added.key, None, Some(added.value.clone()))? {
        return Ok(());
    }
    let values = added.unique.as_deref().unwrap_or_default();
    let taken = || Error::Data(format!("{} has a row with {values} already", change.table.name));
    let Some(held) = self::values(store, std::slice::from_ref(&added.key))?.swap_remove(0) else {
        return Err(Error::Unavailable(format!("{values} was just given back: try again")));
    };
    let (_, owner) = read_entry(&held)?;
    if owner != change.key {
        let record = self::values(store, &[owner.to_vec()])?.swap_remove(0);
        if let Some(record) = record
            && has_key(change, &record, &added.key)?
        {
            return Err(taken());
        }
    }
    match set(store, &added.key, Some(held), Some(added.value.clone()))? {
        true => Ok(()),
        false => Err(taken()),
    }
}

/// Whether a record makes this entry.
fn has_key(change: &Change, record: &[u8], key: &[u8]) -> Result<bool> {
    let row = rows::batch(&change.table, std::iter::once(record))?;
    for index in change.table.indexes.iter().filter(|index| index.kind != IndexKind::Primary) {
        if index.keys(&change.table, row.columns(), 0)?.iter().any(|known| known == key) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the row violates, now that it is there, or is gone. Of two writers of which one takes away what the other refers to,
/// each looks behind its write: one of them at least sees the other.
fn violated(store: &dyn Store, change: &Change) -> Result<Option<String>> {
    if let Some(says) = dangling(store, change)? {
        return Ok(Some(says));
    }
    for limit in &change.limits {
        let most = limit.rows as usize;
        if counted(store, limit, most + 1)? > most && live(store, change, limit)? > most {
            return Ok(Some(limit.says.clone()));
        }
    }
    // A unique key that was taken over in the meantime: the row that has it now stays.
    for added in change.added.iter().filter(|added| added.unique.is_some()) {
        let now = values(store, std::slice::from_ref(&added.key))?.swap_remove(0);
        if now.as_ref() != Some(&added.value) {
            let values = added.unique.as_deref().unwrap_or_default();
            return Ok(Some(format!("{} has a row with {values} already", change.table.name)));
        }
    }
    Ok(None)
}

/// How many keys a range has, up to a number; by reading it where the store cannot count.
fn counted(store: &dyn Store, limit: &Limited, up_to: usize) -> Result<usize> {
    let (from, to) = (limit.from.clone(), limit.to.clone());
    let request = match store.capabilities().counts {
        true => Read::Count { from, to, up_to },
        false => Read::Range { from, to, limit: up_to, reverse: false },
    };
    match store.read(&[request])?.pop() {
        Some(Found::Count(count)) => Ok(count),
        Some(Found::Entries(entries)) => Ok(entries.len()),
        _ => Err(Error::Internal("the store gave another answer than was asked for".to_string())),
    }
}

/// How many rows a range has, without entries whose rows are not there.
fn live(store: &dyn Store, change: &Change, limit: &Limited) -> Result<usize> {
    let most = limit.rows as usize;
    if limit.index.kind == IndexKind::Primary {
        return Ok(most + 1);
    }
    let mut from = limit.from.clone();
    let mut live = 0;
    loop {
        let range = Read::Range { from: from.clone(), to: limit.to.clone(), limit: most + 1, reverse: false };
        let Some(Found::Entries(entries)) = store.read(&[range])?.pop() else { return Ok(live) };
        let mut owners = Vec::new();
        for (_, value) in entries.iter() {
            owners.push(read_entry(value)?.1.to_vec());
        }
        for ((key, _), record) in entries.iter().zip(values(store, &owners)?) {
            if let Some(record) = record
                && has_key(change, &record, key)?
            {
                live += 1;
            }
        }
        match entries.iter().last() {
            Some((last, _)) if entries.len() > most && live <= most => from = [last, &[0]].concat(),
            _ => return Ok(live),
        }
    }
}

/// The record as it was, then the entries away that were put for it.
fn take_back(store: &dyn Store, change: &Change) -> Result<()> {
    if set(store, &change.key, change.after.clone(), change.before.clone())? {
        for added in &change.added {
            set(store, &added.key, Some(added.value.clone()), None)?;
        }
    }
    Ok(())
}
