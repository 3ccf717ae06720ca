//! Tables with typed rows.

use crate::codec;
use crate::error::{Error, Result};
use crate::read::{Read, Row};
use crate::store::ControlStore;
use crate::transaction::{Condition, Effect, Outcome, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::sync::Arc;

/// How often an update starts again because another one came first. Each time somebody gets further.
const ATTEMPTS: usize = 10_000;

/// A map from keys to values of one type, whose rows have versions.
///
/// ```
/// use std::sync::Arc;
/// use whimbrel_control::{MemoryStore, Table};
///
/// let counts: Table<u64> = Table::new(Arc::new(MemoryStore::default()), "counts");
/// counts.update("workers", |count| count.unwrap_or(0) + 1)?;
/// assert_eq!(counts.get("workers")?.map(|row| row.value), Some(1));
/// # Ok::<(), whimbrel_control::Error>(())
/// ```
pub struct Table<T> {
    store: Arc<dyn ControlStore>,
    name: String,
    rows: PhantomData<fn() -> T>,
}

/// A value, and the version of the transaction that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The version.
    pub version: u64,
    /// The value.
    pub value: T,
}

impl<T: Serialize + DeserializeOwned> Table<T> {
    /// The table of this name; it need not be made.
    pub fn new(store: Arc<dyn ControlStore>, name: &str) -> Table<T> {
        Table { store, name: name.to_string(), rows: PhantomData }
    }

    /// A row, if it is there.
    ///
    /// # Errors
    /// `Damaged` if it is of another type; those of the store.
    pub fn get(&self, row: &str) -> Result<Option<Versioned<T>>> {
        let found = self.store.read(&Read::Row { table: self.name.clone(), row: row.to_string() })?;
        found.row()?.map(|found| self.decode(row, &found)).transpose()
    }

    /// All rows, ordered by their keys.
    ///
    /// # Errors
    /// As [`get`](Table::get).
    pub fn rows(&self) -> Result<Vec<(String, Versioned<T>)>> {
        let rows = self.store.read(&Read::Rows { table: self.name.clone() })?.rows()?;
        rows.into_iter()
            .map(|(key, row)| {
                let value = self.decode(&key, &row)?;
                Ok((key, value))
            })
            .collect()
    }

    /// The value of a row that was read.
    ///
    /// # Errors
    /// `Damaged` if it is of another type.
    pub fn decode(&self, key: &str, row: &Row) -> Result<Versioned<T>> {
        Ok(Versioned { version: row.version, value: codec::decode(&row.value, &self.place(key))? })
    }

    /// What writes a row.
    ///
    /// # Errors
    /// `Invalid` if the value cannot be written as bytes.
    pub fn put(&self, row: &str, value: &T) -> Result<Effect> {
        let value = codec::encode(value, &self.place(row))?;
        Ok(Effect::Put { table: self.name.clone(), row: row.to_string(), value })
    }

    /// What deletes a row.
    pub fn delete(&self, row: &str) -> Effect {
        Effect::Delete { table: self.name.clone(), row: row.to_string() }
    }

    /// That a row is as it was read: of this version, or absent.
    pub fn unchanged(&self, row: &str, version: Option<u64>) -> Condition {
        let (table, row) = (self.name.clone(), row.to_string());
        match version {
            Some(version) => Condition::Version { table, row, version },
            None => Condition::Absent { table, row },
        }
    }

    /// Changes a row, whoever else changes it meanwhile: from the value that it has to the one that the
    /// function makes of it, which may be called again. Gives what the row holds then.
    ///
    /// # Errors
    /// `Unavailable` if others changed the row all the time; as [`get`](Table::get) and [`put`](Table::put).
    pub fn update(&self, row: &str, mut change: impl FnMut(Option<T>) -> T) -> Result<Versioned<T>> {
        for _ in 0..ATTEMPTS {
            let old = self.get(row)?;
            let unchanged = self.unchanged(row, old.as_ref().map(|old| old.version));
            let value = change(old.map(|old| old.value));
            let transaction = Transaction::new().when(unchanged).then(self.put(row, &value)?);
            if let Outcome::Committed { version, .. } = self.store.commit(&transaction)? {
                return Ok(Versioned { version, value });
            }
        }
        Err(Error::Unavailable(format!(
            "{} was changed by others {ATTEMPTS} times while this process wanted to: try again later",
            self.place(row)
        )))
    }

    fn place(&self, row: &str) -> String {
        format!("the row `{row}` of the table `{}`", self.name)
    }
}
