//! What a crash left: entries without a record go, records without an entry get one.
//!
//! A writer that is at work looks like one that crashed: its entries are there before its record. So what is wrong is
//! looked at twice, and only what is still wrong, and the same, after a time in which every write has ended is changed.

use super::build::each_piece;
use crate::error::Result;
use crate::rows;
use crate::schema::{Index, IndexKind, Schema, Table, entry_value, read_entry};
use crate::store::{Condition, Found, Outcome, Read, Store, Write};
use std::time::Duration;

/// What was repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Entries that had no record.
    pub removed: u64,
    /// Entries that were missing.
    pub added: u64,
}

/// An entry that is wrong.
struct Wrong<'s> {
    table: &'s Table,
    index: &'s Index,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Repairs all tables.
pub(crate) fn repair(store: &dyn Store, schema: &Schema, writes_take: Duration) -> Result<Repaired> {
    let mut repaired = Repaired::default();
    let mut wrong = Vec::new();
    for table in schema.tables() {
        for index in table.indexes.iter().filter(|index| index.kind != IndexKind::Primary) {
            each_piece(store, &index.prefix(), |entries| {
                for (key, value) in entries.iter() {
                    if !belongs(store, table, index, key, value)? {
                        wrong.push(Wrong { table, index, key: key.to_vec(), value: value.to_vec() });
                    }
                }
                Ok(())
            })?;
        }
    }
    if !wrong.is_empty() {
        std::thread::sleep(writes_take);
    }
    for wrong in wrong {
        if !belongs(store, wrong.table, wrong.index, &wrong.key, &wrong.value)? {
            let condition = Condition::Same { key: wrong.key.clone(), value: Some(wrong.value) };
            let gone = store.commit(&[condition], &[Write::Delete(wrong.key)])? == Outcome::Done;
            repaired.removed += u64::from(gone);
        }
    }
    for table in schema.tables() {
        each_piece(store, &table.primary().prefix(), |entries| {
            for (key, record) in entries.iter() {
                repaired.added += complete(store, table, key, record)?;
            }
            Ok(())
        })?;
    }
    Ok(repaired)
}

fn belongs(store: &dyn Store, table: &Table, index: &Index, key: &[u8], value: &[u8]) -> Result<bool> {
    let (_, owner) = read_entry(value)?;
    let Some(Found::Value(Some(record))) = store.read(&[Read::Get(owner.to_vec())])?.pop() else {
        return Ok(false);
    };
    let row = rows::batch(table, std::iter::once(record.as_slice()))?;
    Ok(index.keys(table, row.columns(), 0)?.iter().any(|known| known == key))
}

/// Puts the entries that a record lacks.
fn complete(store: &dyn Store, table: &Table, key: &[u8], record: &[u8]) -> Result<u64> {
    let row = rows::batch(table, std::iter::once(record))?;
    let value = entry_value(rows::version(record)?, key);
    let mut added = 0;
    for index in table.indexes.iter().filter(|index| index.kind != IndexKind::Primary) {
        for entry in index.keys(table, row.columns(), 0)? {
            let condition = Condition::Same { key: entry.clone(), value: None };
            let put = store.commit(&[condition], &[Write::Put(entry, value.clone())])?;
            added += u64::from(put == Outcome::Done);
        }
    }
    Ok(added)
}
