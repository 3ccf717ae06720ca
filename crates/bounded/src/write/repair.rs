//! What a crash left: entries without a record go, records without an entry get one, claims of unique keys
//! are settled. Rows that have the same unique key are named.
//!
//! A writer that is at work looks like one that crashed: its entries are there before its record. So what is
//! wrong is looked at twice, and only what is still wrong, and the same, after a time in which every write
//! has ended is changed.

use super::entry::{self, set};
use crate::error::Result;
use crate::mutation::{each_piece, values_text};
use crate::record;
use crate::schema::{Index, IndexKind, Schema, Table, entry_value, is_claim, read_entry};
use crate::store::Store;
use datafusion::arrow::array::RecordBatch;
use std::time::Duration;

/// What was repaired, and what only the owner of the data can repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Entries that had no record.
    pub removed: u64,
    /// Entries that were missing.
    pub added: u64,
    /// Claims whose writers crashed after their records: they are entries now.
    pub settled: u64,
    /// Rows with the same unique key: each with the shared values and both primary keys. Delete one of them,
    /// or change its key.
    pub duplicates: Vec<String>,
}

/// A fault of an entry.
enum Fault {
    /// Its record does not exist or does not make it.
    Stray,
    /// It is a claim, and its record is written.
    Unsettled,
    /// It belongs to another record with the same unique key.
    Duplicate(String),
    /// It is missing, or belongs to a record that does not make it.
    Missing,
}

/// An entry with a fault.
struct FaultyEntry<'s> {
    table: &'s Table,
    index: &'s Index,
    /// The key of the record that it should be for.
    record: Vec<u8>,
    key: Vec<u8>,
    stored: Option<Vec<u8>>,
}

/// Repairs all tables.
pub(crate) fn repair(store: &dyn Store, schema: &Schema, writes_take: Duration) -> Result<Repaired> {
    let mut faulty = Vec::new();
    for table in schema.tables() {
        find_faulty_entries(store, table, &mut faulty)?;
        find_missing_entries(store, table, &mut faulty)?;
    }
    if !faulty.is_empty() {
        std::thread::sleep(writes_take);
    }
    let mut repaired = Repaired::default();
    for faulty in faulty {
        faulty.repair(store, &mut repaired)?;
    }
    repaired.duplicates.sort();
    repaired.duplicates.dedup();
    Ok(repaired)
}

/// Finds entries whose record does not make them.
fn find_faulty_entries<'s>(
    store: &dyn Store,
    table: &'s Table,
    faulty: &mut Vec<FaultyEntry<'s>>,
) -> Result<()> {
    for index in table.indexes.iter().filter(|index| index.kind != IndexKind::Primary) {
        each_piece(store, &index.prefix(), |entries| {
            for (key, value) in entries.iter() {
                let (record, stored) = (read_entry(value)?.1.to_vec(), Some(value.to_vec()));
                let entry = FaultyEntry { table, index, record, key: key.to_vec(), stored };
                if entry.fault(store)?.is_some() {
                    faulty.push(entry);
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Finds entries that records need, and that are missing or belong to others.
fn find_missing_entries<'s>(
    store: &dyn Store,
    table: &'s Table,
    faulty: &mut Vec<FaultyEntry<'s>>,
) -> Result<()> {
    each_piece(store, &table.primary().prefix(), |entries| {
        for (record_key, record) in entries.iter() {
            let row = record::batch(table, std::iter::once(record))?;
            for index in table.indexes.iter().filter(|index| index.kind != IndexKind::Primary) {
                for key in index.keys(table, row.columns(), 0)? {
                    let stored = value(store, &key)?;
                    let is_own = match &stored {
                        Some(stored) => read_entry(stored)?.1 == record_key,
                        None => false,
                    };
                    if !is_own {
                        faulty.push(FaultyEntry { table, index, record: record_key.to_vec(), key, stored });
                    }
                }
            }
        }
        Ok(())
    })
}

impl FaultyEntry<'_> {
    /// Its fault now, if the entry has not changed.
    fn fault(&self, store: &dyn Store) -> Result<Option<Fault>> {
        if value(store, &self.key)? != self.stored {
            return Ok(None);
        }
        let record = self.row(store, &self.record)?;
        let makes = match &record {
            Some(row) => self.index.keys(self.table, row.columns(), 0)?.contains(&self.key),
            None => false,
        };
        let Some(stored) = &self.stored else { return Ok(makes.then_some(Fault::Missing)) };
        let (_, owner) = read_entry(stored)?;
        if owner == self.record {
            return Ok(match makes {
                true => is_claim(stored).then_some(Fault::Unsettled),
                false => Some(Fault::Stray),
            });
        }
        let (true, Some(row)) = (makes, record) else { return Ok(None) };
        let other = self.row(store, owner)?;
        match other {
            Some(other) if self.index.keys(self.table, other.columns(), 0)?.contains(&self.key) => {
                Ok(Some(Fault::Duplicate(self.duplicate(&row, &other)?)))
            }
            _ => Ok(Some(Fault::Missing)),
        }
    }

    /// The row of a record, if it is there.
    fn row(&self, store: &dyn Store, key: &[u8]) -> Result<Option<RecordBatch>> {
        let record = value(store, key)?;
        record.map(|record| record::batch(self.table, std::iter::once(record.as_slice()))).transpose()
    }

    /// Describes two rows with one unique key.
    fn duplicate(&self, one: &RecordBatch, other: &RecordBatch) -> Result<String> {
        let named = |row: &RecordBatch, columns: &[usize]| {
            Ok::<_, crate::Error>(values_text(self.table, columns, row.columns(), 0)?.unwrap_or_default())
        };
        let (shared, key) = (named(one, &self.index.columns())?, self.table.key_columns());
        let mut rows = [named(one, &key)?, named(other, &key)?];
        rows.sort();
        Ok(format!("{} has two rows with {shared}: {}; and {}", self.table.name, rows[0], rows[1]))
    }

    /// Repairs an entry, if it still is wrong.
    fn repair(&self, store: &dyn Store, repaired: &mut Repaired) -> Result<()> {
        let Some(fault) = self.fault(store)? else { return Ok(()) };
        let entry =
            |record: &[u8]| Ok::<_, crate::Error>(entry_value(record::version(record)?, &self.record));
        match fault {
            Fault::Stray => {
                let gone = set(store, &self.key, self.stored.clone(), None)?;
                repaired.removed += u64::from(gone);
            }
            Fault::Duplicate(says) => repaired.duplicates.push(says),
            Fault::Unsettled | Fault::Missing => {
                let Some(record) = value(store, &self.record)? else { return Ok(()) };
                let put = set(store, &self.key, self.stored.clone(), Some(entry(&record)?))?;
                let count =
                    if matches!(fault, Fault::Missing) { &mut repaired.added } else { &mut repaired.settled };
                *count += u64::from(put);
            }
        }
        Ok(())
    }
}

/// The value of a key.
fn value(store: &dyn Store, key: &[u8]) -> Result<Option<Vec<u8>>> {
    entry::values(store, &[key.to_vec()]).map(|mut values| values.swap_remove(0))
}
