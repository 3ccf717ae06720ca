//! A store that can be closed while statements still hold it. A file is free for others at once, and not only
//! when the last prepared statement is dropped.
//!
//! Invariant: nothing is asked of a store after it was closed. Closing waits for calls under way.

use super::interface::{Capabilities, Condition, Found, Outcome, Read, Store, Write};
use crate::error::{Error, Result};
use std::sync::{PoisonError, RwLock};

/// A store, until it is closed.
pub(crate) struct Closable {
    capabilities: Capabilities,
    store: RwLock<Option<Box<dyn Store>>>,
}

impl Closable {
    /// An open store.
    pub fn new(store: Box<dyn Store>) -> Closable {
        Closable { capabilities: store.capabilities(), store: RwLock::new(Some(store)) }
    }

    /// Closes the store.
    pub fn close(&self) {
        self.store.write().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Calls a function with the store, if it is open.
    fn open<T>(&self, ask: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        match self.store.read().unwrap_or_else(PoisonError::into_inner).as_deref() {
            Some(store) => ask(store),
            None => Err(Error::invalid("the database is closed: open it again")),
        }
    }
}

impl Store for Closable {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
        self.open(|store| store.read(requests))
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
        self.open(|store| store.commit(conditions, writes))
    }
}
