//! The tape of a job: for each epoch, which slices of its sources it has.
//!
//! Invariants: the record of an epoch is durable before anything that depends on the epoch can be seen
//! from outside (quokka.txt Algorithm 1). Each record is created once: a process that finds one there,
//! and did not write it, is not the one that runs the job any more.

use crate::codec;
use crate::error::overtaken;
use crate::store::StateStore;
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const FOLDER: &str = "tape";

/// One epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Its number, from one on.
    pub number: u64,
    /// The run of the job that cut it.
    pub generation: u64,
    /// Whether the states of the channels are saved at its end.
    pub snapshot: bool,
    /// The slice of each source; none if it had nothing new.
    pub slices: Vec<Option<Vec<u8>>>,
}

/// All epochs that a checkpoint may have to be continued with.
pub struct Tape {
    store: Arc<dyn StateStore>,
}

impl Tape {
    /// The tape in a store.
    pub fn new(store: Arc<dyn StateStore>) -> Tape {
        Tape { store }
    }

    /// Keeps an epoch.
    ///
    /// # Errors
    /// `Execution` if another process has gone on with the job; those of the store.
    pub fn append(&self, epoch: &Epoch) -> Result<()> {
        match self.store.create(&name(epoch.number), codec::seal(epoch)?)? {
            true => Ok(()),
            false => Err(overtaken(format!(
                "another process goes on with the job in `{}`: it has cut epoch {}; this one stops",
                self.store.describe(),
                epoch.number
            ))),
        }
    }

    /// The first epoch that is kept.
    ///
    /// # Errors
    /// Those of the store.
    pub fn first(&self) -> Result<Option<u64>> {
        Ok(self.numbers()?.first().copied())
    }

    /// The epochs behind this one, in order.
    ///
    /// # Errors
    /// `Execution` if one is missing or damaged.
    pub fn after(&self, last: u64) -> Result<Vec<Epoch>> {
        let mut epochs = Vec::new();
        for number in self.numbers()?.into_iter().filter(|number| *number > last) {
            let expected = last + 1 + epochs.len() as u64;
            let bytes = self.store.get(&name(number))?.unwrap_or_default();
            if number != expected {
                return exec_err!(
                    "`{}` lacks the record of epoch {expected}; it has that of epoch {number}",
                    self.store.describe()
                );
            }
            epochs.push(codec::open::<Epoch>(&bytes, &name(number))?);
        }
        Ok(epochs)
    }

    /// Removes the epochs up to this one.
    ///
    /// # Errors
    /// Those of the store.
    pub fn forget(&self, last: u64) -> Result<()> {
        let old = self.numbers()?.into_iter().filter(|number| *number <= last);
        self.store.remove(&old.map(name).collect::<Vec<_>>())
    }

    fn numbers(&self) -> Result<Vec<u64>> {
        Ok(self.store.list(FOLDER)?.iter().filter_map(|name| name.parse().ok()).collect())
    }
}

fn name(epoch: u64) -> String {
    format!("{FOLDER}/{epoch:012}")
}
