//! The runs of a job: each has a number, one more than that of any before it.
//!
//! Invariant: two runs never have the same number. A run that is not the newest any more must not change what
//! the newest one reads: records that are created once see to that, and where a record is replaced or
//! removed, the run looks first whether it is the newest.

use crate::error::overtaken;
use crate::identity::new_number;
use crate::store::StateStore;
use datafusion::common::Result;
use std::sync::Arc;

const FOLDER: &str = "generations";

/// A run of a job.
#[derive(Clone)]
pub struct Generation {
    store: Arc<dyn StateStore>,
    number: u64,
}

impl Generation {
    /// A new run: from now on it is the newest.
    ///
    /// # Errors
    /// Those of the store.
    pub fn take(store: &Arc<dyn StateStore>) -> Result<Generation> {
        let found = store.list(FOLDER)?;
        let mut number = newest(&found);
        // The contents tell two runs apart that take a number at the same time.
        let contents = new_number().into_bytes();
        loop {
            number += 1;
            if store.create(&format!("{FOLDER}/{number:012}"), contents.clone())? {
                let old = found.iter().map(|name| format!("{FOLDER}/{name}"));
                store.remove(&old.collect::<Vec<_>>())?;
                return Ok(Generation { store: Arc::clone(store), number });
            }
        }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Checks that no later run has begun.
    ///
    /// # Errors
    /// `External` if one has; those of the store.
    pub fn check_newest(&self) -> Result<()> {
        match newest(&self.store.list(FOLDER)?) > self.number {
            true => Err(overtaken(format!(
                "another process goes on with the job in `{}`; this one stops",
                self.store.describe()
            ))),
            false => Ok(()),
        }
    }
}

fn newest(names: &[String]) -> u64 {
    names.iter().filter_map(|name| name.parse().ok()).max().unwrap_or(0)
}
