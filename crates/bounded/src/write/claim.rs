//! Unique keys on a store that writes key by key.
//!
//! The entry of a unique key and the record of its row are two keys, and no write covers both. So who wants a
//! unique key first *claims* it: puts an entry that is marked as a claim, by test-and-set. The record
//! follows, and then the claim is *settled*: made an ordinary entry, by test-and-set again. A claim that
//! stands for long without being settled was abandoned by a writer that crashed. Whoever wants the key then
//! takes it over, by test-and-set too.
//!
//! Invariants:
//! - Of who settles a claim and who takes it over one succeeds, however slow the other is. A write is
//!   acknowledged only behind its settled claims, so no two rows of acknowledged writes have the same unique
//!   key.
//! - The record of a settled entry was there when it was settled. If it does not have the key any more, its
//!   entry is stale, and no writer can give it the key again without changing the entry first.
//! - A row whose unique keys are not settled is changed by nobody else than its writer, unless that is gone.

use super::entry::{has_key, set, values};
use crate::contention::Contention;
use crate::error::{Error, Result};
use crate::mutation::{AddedEntry, RowChange};
use crate::schema::{claim_value, is_claim, read_entry};
use crate::store::Store;

/// How often settling is tried while others claim the same key for the same row.
const TRIES: usize = 16;

/// A unique key that is claimed for a row.
pub(super) struct Claim<'c> {
    entry: &'c AddedEntry,
    /// The key of the row's record.
    owner: &'c [u8],
    /// The value of the entry now.
    value: Vec<u8>,
    /// The value before the claim, if it was for the same row.
    before: Option<Vec<u8>>,
}

/// Whether an entry is settled, for this record.
pub(super) fn is_settled(value: &[u8], record: &[u8]) -> Result<bool> {
    Ok(!is_claim(value) && read_entry(value)?.1 == record)
}

/// Claims a unique key for a row; `None` if another writer has claimed it, and will settle or release it.
///
/// # Errors
/// `Data` if another row has it.
pub(super) fn claim<'c>(
    store: &dyn Store,
    change: &'c RowChange,
    entry: &'c AddedEntry,
    contention: &mut Contention,
) -> Result<Option<Claim<'c>>> {
    let value = claim_value(&entry.value)?;
    let claimed = |before| Some(Claim { entry, owner: &change.key, value: value.clone(), before });
    if set(store, &entry.key, None, Some(value.clone()))? {
        return Ok(claimed(None));
    }
    let Some(stored) = values(store, std::slice::from_ref(&entry.key))?.swap_remove(0) else {
        return Ok(None);
    };
    if is_claim(&stored) && !contention.is_abandoned(&entry.key, &stored) {
        return Ok(None);
    }
    let (_, owner) = read_entry(&stored)?;
    let is_own = owner == change.key;
    if !is_own
        && let Some(record) = values(store, &[owner.to_vec()])?.swap_remove(0)
        && has_key(change, &record, &entry.key)?
    {
        let values = entry.unique.as_deref().unwrap_or_default();
        return Err(Error::Data(format!("{} has a row with {values} already", change.table.name)));
    }
    match set(store, &entry.key, Some(stored.clone()), Some(value.clone()))? {
        true => Ok(claimed(is_own.then_some(stored))),
        false => Ok(None),
    }
}

impl Claim<'_> {
    /// Turns the claim into an entry, now that the record is written; `false` if another row took the key
    /// over.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer.
    pub fn settle(&mut self, store: &dyn Store) -> Result<bool> {
        let mut stored = Some(self.value.clone());
        for _ in 0..TRIES {
            if set(store, &self.entry.key, stored, Some(self.entry.value.clone()))? {
                self.value = self.entry.value.clone();
                return Ok(true);
            }
            // Another writer may have claimed it for the same row, and will fail. Or a repair removed the
            // claim.
            stored = values(store, std::slice::from_ref(&self.entry.key))?.swap_remove(0);
            if let Some(stored) = &stored
                && read_entry(stored)?.1 != self.owner
            {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Restores what was there before the claim.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer.
    pub fn release(&self, store: &dyn Store) -> Result<()> {
        set(store, &self.entry.key, Some(self.value.clone()), self.before.clone()).map(|_| ())
    }
}
