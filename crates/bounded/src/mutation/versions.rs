//! Versions of records: numbers that no other write of the same record has.

use crate::error::{Error, Result};
use crate::schema::VERSIONS;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that no other write of a record has: random, and counted on from there.
#[derive(Debug)]
pub(crate) struct Versions(AtomicU64);

impl Versions {
    /// Versions from a random number on.
    ///
    /// # Errors
    /// `Unavailable` if the system has no random numbers.
    pub fn new() -> Result<Versions> {
        let random =
            getrandom::u64().map_err(|error| Error::Unavailable(format!("no random numbers: {error}")))?;
        Ok(Versions(AtomicU64::new(random)))
    }

    /// The next version.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) & VERSIONS
    }
}
