//! A store for one call, which counts the operations of that call.

use super::faults::Operations;
use super::interface::{Capabilities, Condition, Found, Outcome, Read, Store, Write};
use crate::error::Result;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A store that counts the operations of one call.
pub(crate) struct Metered<'s> {
    store: &'s dyn Store,
    operations: Mutex<Operations>,
}

impl<'s> Metered<'s> {
    /// A counter at zero.
    pub fn new(store: &'s dyn Store) -> Metered<'s> {
        Metered { store, operations: Mutex::default() }
    }

    /// What was asked until now.
    pub fn operations(&self) -> Operations {
        *self.lock()
    }

    /// The counts so far.
    fn lock(&self) -> MutexGuard<'_, Operations> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Metered<'_> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
        let found = self.store.read(requests)?;
        let mut operations = self.lock();
        operations.rounds += 1;
        operations.requests += requests.len() as u64;
        for (tuples, bytes) in found.iter().map(Found::size) {
            operations.tuples += tuples;
            operations.bytes += bytes;
        }
        Ok(found)
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
        let outcome = self.store.commit(conditions, writes)?;
        let mut operations = self.lock();
        operations.conditions += conditions.len() as u64;
        operations.writes += writes.len() as u64;
        Ok(outcome)
    }
}
