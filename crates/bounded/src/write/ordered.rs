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

/// How often an entry is put against other writers of the same row.
const TRIES: usize = 16;

/// What became of a change.
enum Step {
    /// The change was made.
    Written,
    /// Another writer is at work on a unique key of the row: nothing was written.
    Busy,
    /// The row is another by now: nothing was written.
    Changed,
}

/// Makes changes one after the other.
pub(super) fn apply(
    store: &dyn Store,
    changes: &[RowChange],
    contention: &mut Contention,
) -> Result<WriteOutcome> {
    for (written, change) in changes.iter().enumerate() {
        // What was written stays: without transactions a statement of several rows is several statements.
        let meanwhile = || {
            let table = &change.table.name;
            format!("others wrote to {table} meanwhile; {written} of {} rows were written", changes.len())
        };
        loop {
            match write_change(store, change, contention)? {
                Step::Written => break,
                Step::Busy | Step::Changed if written == 0 => return Ok(WriteOutcome::Again),
                Step::Busy => contention.pause(meanwhile)?,
                Step::Changed => return Err(Error::Conflict(meanwhile())),
            }
        }
    }
    Ok(WriteOutcome::Rows(changes.len() as u64))
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

/// Entries that are not held against other rows.
fn non_unique_entries(change: &RowChange) -> impl Iterator<Item = &AddedEntry> {
    change.added.iter().filter(|added| added.unique.is_none())
}

/// How many keys a range has, up to a number; by reading it where the store cannot count.
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

/// What is asked to know whether references hold: rows that this one refers to, and rows that refer to it.
fn references(store: &dyn Store, change: &RowChange) -> Vec<Read> {
    let parents = change.references.iter().map(|(key, _)| Read::Get(key.clone()));
    parents.chain(change.referring.iter().map(|(from, to, _)| count(store, from, to, 1))).collect()
}

/// The reference that points at nothing, by the answers to that.
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

/// What is there before a change, looked at in one round.
struct Before<'c> {
    /// The values of the entries that go.
    stale: Vec<Option<Vec<u8>>>,
    /// Unique keys that have to be claimed: new ones, and those that the row has without having settled them.
    wanted: Vec<&'c AddedEntry>,
}

impl Before<'_> {
    /// `None` if the row is one whose writer is still at work.
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

/// What the row violates, now that it is there, or is gone. Of two writers of which one takes away what the
/// other refers to, each looks behind its write: one of them at least sees the other.
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

/// Makes an entry this row's own: one that another writer of the row has put is taken away if that takes its
/// row back.
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

/// Whether a row of this table can be refused behind its write.
fn can_be_undone(change: &RowChange) -> bool {
    let table = &change.table;
    let has_unique = table.indexes.iter().any(|index| index.kind == IndexKind::Unique);
    has_unique || !table.limits.is_empty() || !table.foreign_keys.is_empty() || !change.referring.is_empty()
}

/// How many rows a range has, without entries whose rows are not there.
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

/// The record as it was, then the entries away that were put for it. If another has changed the row meanwhile
/// it stays, and needs them.
fn undo(store: &dyn Store, change: &RowChange, claims: &[Claim<'_>]) -> Result<()> {
    if set(store, &change.key, change.after.clone(), change.before.clone())? {
        for added in non_unique_entries(change) {
            set(store, &added.key, Some(added.value.clone()), None)?;
        }
        release(store, claims)?;
    }
    Ok(())
}

/// Gives claims back.
fn release(store: &dyn Store, claims: &[Claim<'_>]) -> Result<()> {
    claims.iter().try_for_each(|claim| claim.release(store))
}
