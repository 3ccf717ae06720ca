//! The embedded store, the default: a file of `redb`.
//!
//! Invariant: a call of `read` is one read transaction, so all its answers are of one instant; a commit is
//! one write transaction, durable when it returns unless the store was opened otherwise.

use super::interface::{
    Atomicity, Capabilities, Condition, Entries, Found, Order, Outcome, Read, Store, Write,
};
use crate::error::{Error, Result};
use redb::{Builder, Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::fmt::Display;
use std::path::Path;

/// The one table of the file.
const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("whimbrel");

/// A store in one file.
pub struct EmbeddedStore {
    database: Database,
    durability: Durability,
}

impl EmbeddedStore {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// `Unavailable` if it cannot be opened: it is in use by another process, or not a file of this kind.
    pub fn open(path: impl AsRef<Path>) -> Result<EmbeddedStore> {
        let path = path.as_ref();
        let database = Builder::new().create(path);
        let database =
            database.map_err(|error| Error::Unavailable(format!("`{}`: {error}", path.display())))?;
        EmbeddedStore::over(database)
    }

    /// A store of the same make that is gone with the process.
    ///
    /// # Errors
    /// `Unavailable` if there is no memory.
    pub fn in_memory() -> Result<EmbeddedStore> {
        let backend = redb::backends::InMemoryBackend::new();
        EmbeddedStore::over(Builder::new().create_with_backend(backend).map_err(away)?)
    }

    /// Commits return before they are on the disk: faster, and the last ones may be lost with the machine.
    /// The file stays consistent.
    pub fn without_waiting(mut self) -> EmbeddedStore {
        self.durability = Durability::None;
        self
    }

    /// A store over an open database.
    fn over(database: Database) -> Result<EmbeddedStore> {
        let transaction = database.begin_write().map_err(away)?;
        transaction.open_table(TABLE).map_err(away)?;
        transaction.commit().map_err(away)?;
        Ok(EmbeddedStore { database, durability: Durability::Immediate })
    }
}

/// The error for a failed operation of the file.
fn away(error: impl Display) -> Error {
    Error::Unavailable(format!("the embedded store: {error}"))
}

/// The value of a key.
fn get(table: &impl ReadableTable<&'static [u8], &'static [u8]>, key: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(table.get(key).map_err(away)?.map(|value| value.value().to_vec()))
}

/// How many keys are in a range, up to a number.
fn count(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    to: &[u8],
    up_to: usize,
) -> Result<usize> {
    if from >= to {
        return Ok(0);
    }
    let mut found = 0;
    for entry in table.range::<&[u8]>(from..to).map_err(away)?.take(up_to) {
        entry.map_err(away)?;
        found += 1;
    }
    Ok(found)
}

/// The first or last entries of a range.
fn range(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    to: &[u8],
    limit: usize,
    reverse: bool,
) -> Result<Entries> {
    let mut entries = Entries::default();
    if from >= to {
        return Ok(entries);
    }
    let mut range = table.range::<&[u8]>(from..to).map_err(away)?;
    while entries.len() < limit {
        let Some(entry) = (if reverse { range.next_back() } else { range.next() }) else { break };
        let (key, value) = entry.map_err(away)?;
        entries.push(key.value(), value.value());
    }
    Ok(entries)
}

/// The answer to a request.
fn answer(table: &impl ReadableTable<&'static [u8], &'static [u8]>, request: &Read) -> Result<Found> {
    Ok(match request {
        Read::Get(key) => Found::Value(get(table, key)?),
        Read::Range { from, to, limit, reverse } => Found::Entries(range(table, from, to, *limit, *reverse)?),
        Read::Count { from, to, up_to } => Found::Count(count(table, from, to, *up_to)?),
    })
}

/// Whether a condition is true.
fn holds(table: &impl ReadableTable<&'static [u8], &'static [u8]>, condition: &Condition) -> Result<bool> {
    Ok(match condition {
        Condition::Same { key, value } => get(table, key)? == *value,
        Condition::Exists(key) => table.get(key.as_slice()).map_err(away)?.is_some(),
        Condition::AtMost { from, to, keys } => count(table, from, to, keys + 1)? <= *keys,
    })
}

impl Store for EmbeddedStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            order: Order::Global,
            atomicity: Atomicity::Batch,
            batched_ranges: true,
            counts: false,
        }
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
        let transaction = self.database.begin_read().map_err(away)?;
        let table = transaction.open_table(TABLE).map_err(away)?;
        requests.iter().map(|request| answer(&table, request)).collect()
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
        let mut transaction = self.database.begin_write().map_err(away)?;
        transaction.set_durability(self.durability).map_err(away)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(away)?;
            for (at, condition) in conditions.iter().enumerate() {
                if !holds(&table, condition)? {
                    drop(table);
                    transaction.abort().map_err(away)?;
                    return Ok(Outcome::Failed(at));
                }
            }
            for write in writes {
                match write {
                    Write::Put(key, value) => table.insert(key.as_slice(), value.as_slice()).map_err(away)?,
                    Write::Delete(key) => table.remove(key.as_slice()).map_err(away)?,
                };
            }
        }
        transaction.commit().map_err(away)?;
        Ok(Outcome::Done)
    }
}
