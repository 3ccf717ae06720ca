//! Logs with typed records.

use crate::codec;
use crate::error::Result;
use crate::read::{Read, Records};
use crate::store::ControlStore;
use crate::transaction::{Condition, Effect, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::sync::Arc;

/// A list of records of one type that only grows at its end. Each has a position, which it keeps.
///
/// ```
/// use std::sync::Arc;
/// use whimbrel_control::{Log, MemoryStore};
///
/// let log: Log<String> = Log::new(Arc::new(MemoryStore::default()), "lineage");
/// assert!(log.append_at(0, &"first".to_string())?);
/// assert!(!log.append_at(0, &"late".to_string())?);
/// assert_eq!(log.read(0, 10)?.records, ["first"]);
/// # Ok::<(), whimbrel_control::Error>(())
/// ```
pub struct Log<T> {
    store: Arc<dyn ControlStore>,
    name: String,
    records: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Log<T> {
    /// The log of this name; it need not be made.
    pub fn new(store: Arc<dyn ControlStore>, name: &str) -> Log<T> {
        Log { store, name: name.to_string(), records: PhantomData }
    }

    /// How many records it has, those that were trimmed included.
    ///
    /// # Errors
    /// Those of the store.
    pub fn length(&self) -> Result<u64> {
        Ok(self.found(0, 0)?.length)
    }

    /// At most so many records from a position on.
    ///
    /// # Errors
    /// `Damaged` if a record is of another type; those of the store.
    pub fn read(&self, from: u64, limit: u64) -> Result<Records<T>> {
        self.decode(&self.found(from, limit)?)
    }

    /// The records that were read.
    ///
    /// # Errors
    /// `Damaged` if one is of another type.
    pub fn decode(&self, found: &Records) -> Result<Records<T>> {
        let positions = found.first..;
        let decoded = found.records.iter().zip(positions).map(|(record, position)| {
            codec::decode(record, &format!("the log `{}` at position {position}", self.name))
        });
        Ok(Records { length: found.length, first: found.first, records: decoded.collect::<Result<_>>()? })
    }

    /// Appends a record if it gets this position; false if the log has more or fewer records before it.
    ///
    /// # Errors
    /// `Invalid` if the record cannot be written as bytes; those of the store.
    pub fn append_at(&self, position: u64, record: &T) -> Result<bool> {
        let transaction = Transaction::new().when(self.ends_at(position)).then(self.append(record)?);
        Ok(self.store.commit(&transaction)?.is_committed())
    }

    /// What appends a record.
    ///
    /// # Errors
    /// `Invalid` if it cannot be written as bytes.
    pub fn append(&self, record: &T) -> Result<Effect> {
        let record = codec::encode(record, &format!("the log `{}`", self.name))?;
        Ok(Effect::Append { log: self.name.clone(), record })
    }

    /// That the next record gets this position.
    pub fn ends_at(&self, position: u64) -> Condition {
        Condition::Length { log: self.name.clone(), length: position }
    }

    fn found(&self, from: u64, limit: u64) -> Result<Records> {
        self.store.read(&Read::Records { log: self.name.clone(), from, limit })?.records()
    }
}
