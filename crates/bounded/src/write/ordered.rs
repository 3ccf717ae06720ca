//! A change key by key, in the paper's order (piql.txt §7.2): claims of unique keys, new entries, the record,
//! stale entries.
//!
//! Every step is safe to stop behind: an entry without its record is passed over by readers. A stale entry is
//! deleted by test-and-set against the value that it had before the record was written, so an entry that
//! another writer has put there since stays.

use super::claim::{self, Claim};
use super::entry::{has_key, read, set, unexpected_answer, value, values};
use crate::contention::Contention;
use crate::error::{Error, Result};
use crate::mutation::{AddedEntry, CountedRange, RowChange, WriteOutcome};
use crate::schema::{IndexKind, read_entry};
use crate::store::{Found, Read, Store, Write};

/// How often an entry is written against other writers of the same row.
const TRIES: usize = 16;

/// The outcome of a change.
enum Step {
    /// The change was made.
    Written,
    /// Another writer has claimed a unique key of the row. Nothing was written.
    Busy,
    /// The row was changed by another writer. Nothing was written.
    Changed,
}

/// Makes changes one after the other, until one has to be computed again; says how many were made.
pub(super) fn apply(
    store: &dyn Store,
    changes: &[RowChange],
    contention: &mut Contention,
) -> (usize, Result<WriteOutcome>) {
    for (written, change) in changes.iter().enumerate() {
        match write_change(store, change, contention) {
            Ok(Step::Written) => {}
            Ok(Step::Busy | Step::Changed) => return (written, Ok(WriteOutcome::Again)),
            Err(error) => return (written, Err(error)),
        }
    }
    (changes.len(), Ok(WriteOutcome::Written))
}

/// Makes one change.
fn write_change(store: &dyn Store, change: &RowChange, contention: &mut Contention) -> Result<Step> {
    let Some(before) = Before::read(store, change, contention)? else { return Ok(Step::Busy) };
    let mut claims = Vec::new();
    for entry in before.wanted {
        match claim::claim(store, change, entry, contention) {
            Ok(Some(claim)) => claims.push(claim),
            other => {
                release(store, &claims)?;
                return other.map(|_| Step::Busy);
            }
        }
    }
    let puts: Vec<Write> =
        non_unique_entries(change).map(|added| Write::Put(added.key.clone(), added.value.clone())).collect();
    if !puts.is_empty() {
        store.commit(&[], &puts)?;
    }
    if !set(store, &change.key, change.before.clone(), change.after.clone())? {
        release(store, &claims)?;
        return Ok(Step::Changed);
    }
    if let Some(message) = violation(store, change)? {
        undo(store, change, &claims)?;
        return Err(Error::Data(message));
    }
    for at in 0..claims.len() {
        if !claims[at].settle(store)? {
            undo(store, change, &claims)?;
            return Ok(Step::Busy);
        }
    }
    for (removed, value) in change.removed.iter().zip(before.stale) {
        if let Some(value) = value {
            set(store, &removed.key, Some(value), None)?;
        }
    }
    Ok(Step::Written)
}

/// Entries of indexes that are not unique.
fn non_unique_entries(change: &RowChange) -> impl Iterator<Item = &AddedEntry> {
    change.added.iter().filter(|added| added.unique.is_none())
}

/// The request that counts the keys of a range; a read of the range if the store cannot count.
fn count(store: &dyn Store, from: &[u8], to: &[u8], up_to: usize) -> Read {
    let (from, to) = (from.to_vec(), to.to_vec());
    match store.capabilities().counts {
        true => Read::Count { from, to, up_to },
        false => Read::Range { from, to, limit: up_to, reverse: false },
    }
}

/// The count that an answer is.
fn counted(found: Option<Found>) -> Result<usize> {
    match found {
        Some(Found::Count(count)) => Ok(count),
        Some(Found::Entries(entries)) => Ok(entries.len()),
        _ => Err(unexpected_answer()),
    }
}

/// Requests that check references: from this row, and to this row.
fn references(store: &dyn Store, change: &RowChange) -> Vec<Read> {
    let parents = change.references.iter().map(|(key, _)| Read::Get(key.clone()));
    parents.chain(change.referring.iter().map(|(from, to, _)| count(store, from, to, 1))).collect()
}

/// The first violated reference, from the answers to these requests.
fn dangling_reference(
    change: &RowChange,
    answers: &mut impl Iterator<Item = Found>,
) -> Result<Option<String>> {
    let mut first = None;
    for (key, message) in &change.references {
        let parent = answers.next().ok_or_else(unexpected_answer).and_then(value)?;
        if parent.is_none() && *key != change.key {
            first.get_or_insert_with(|| message.clone());
        }
    }
    for (_, _, message) in &change.referring {
        if counted(answers.next())? > 0 {
            first.get_or_insert_with(|| message.clone());
        }
    }
    Ok(first)
}

/// What was read before a change, in one round.
struct Before<'c> {
    /// The values of entries that will be removed.
    stale: Vec<Option<Vec<u8>>>,
    /// Unique keys to be claimed: new ones, and old ones that are not settled.
    wanted: Vec<&'c AddedEntry>,
}

impl Before<'_> {
    /// `None` if another writer of the row has not settled its unique keys yet.
    fn read<'c>(
        store: &dyn Store,
        change: &'c RowChange,
        contention: &mut Contention,
    ) -> Result<Option<Before<'c>>> {
        let mut requests = references(store, change);
        requests.extend(change.removed.iter().map(|removed| Read::Get(removed.key.clone())));
        requests.extend(change.kept.iter().map(|kept| Read::Get(kept.key.clone())));
        let mut answers = read(store, &requests)?;
        if let Some(message) = dangling_reference(change, &mut answers)? {
            return Err(Error::Data(message));
        }
        let mut values = answers.map(value).collect::<Result<Vec<_>>>()?;
        let kept = values.split_off(change.removed.len());
        for (removed, value) in change.removed.iter().zip(&values) {
            if let Some(value) = value
                && removed.is_unique
                && !claim::is_settled(value, &change.key)?
                && !contention.is_abandoned(&removed.key, value)
            {
                return Ok(None);
            }
        }
        let mut wanted: Vec<&AddedEntry> =
            change.added.iter().filter(|added| added.unique.is_some()).collect();
        for (entry, value) in change.kept.iter().zip(kept) {
            match value {
                Some(value) if claim::is_settled(&value, &change.key)? => {}
                _ => wanted.push(entry),
            }
        }
        Ok(Some(Before { stale: values, wanted }))
    }
}

/// The constraint that the row violates, now that it is written or deleted. If one writer deletes a row while
/// another writes a reference to it, both check after their writes, so at least one of them sees the other.
fn violation(store: &dyn Store, change: &RowChange) -> Result<Option<String>> {
    if !can_be_undone(change) {
        return Ok(None);
    }
    let entries: Vec<&AddedEntry> = non_unique_entries(change).filter(|added| !added.is_of_words).collect();
    let mut requests = references(store, change);
    requests.extend(
        change.limits.iter().map(|limit| count(store, &limit.from, &limit.to, limit.rows as usize + 1)),
    );
    requests.extend(entries.iter().map(|added| Read::Get(added.key.clone())));
    let mut answers = read(store, &requests)?;
    let dangling_reference = dangling_reference(change, &mut answers)?;
    let mut full = Vec::new();
    for limit in &change.limits {
        if counted(answers.next())? > limit.rows as usize {
            full.push(limit);
        }
    }
    if dangling_reference.is_some() {
        return Ok(dangling_reference);
    }
    for limit in full {
        if count_live_rows(store, change, limit)? > limit.rows as usize {
            return Ok(Some(limit.message.clone()));
        }
    }
    for (added, found) in entries.into_iter().zip(answers) {
        own_entry(store, added, value(found)?)?;
    }
    Ok(None)
}

/// Overwrites an entry with the value of this change. Another writer of the row may have written it, and
/// would remove it if its change is undone.
fn own_entry(store: &dyn Store, added: &AddedEntry, mut stored: Option<Vec<u8>>) -> Result<()> {
    for _ in 0..TRIES {
        if stored.as_ref() == Some(&added.value) || set(store, &added.key, stored, Some(added.value.clone()))?
        {
            break;
        }
        stored = values(store, std::slice::from_ref(&added.key))?.swap_remove(0);
    }
    Ok(())
}

/// Whether a change of this table can be undone after it was written.
fn can_be_undone(change: &RowChange) -> bool {
    let table = &change.table;
    let has_unique = table.indexes.iter().any(|index| index.kind == IndexKind::Unique);
    has_unique || !table.limits.is_empty() || !table.foreign_keys.is_empty() || !change.referring.is_empty()
}

/// How many rows a range has, without entries that have no record.
fn count_live_rows(store: &dyn Store, change: &RowChange, limit: &CountedRange) -> Result<usize> {
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

/// Restores the record, then removes the entries that were added. If the row was changed by another writer,
/// it needs them, and they stay.
fn undo(store: &dyn Store, change: &RowChange, claims: &[Claim<'_>]) -> Result<()> {
    if set(store, &change.key, change.after.clone(), change.before.clone())? {
        for added in non_unique_entries(change) {
            set(store, &added.key, Some(added.value.clone()), None)?;
        }
        release(store, claims)?;
    }
    Ok(())
}

/// Releases claims.
fn release(store: &dyn Store, claims: &[Claim<'_>]) -> Result<()> {
    claims.iter().try_for_each(|claim| claim.release(store))
}
