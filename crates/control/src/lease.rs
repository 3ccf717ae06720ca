//! Leases: one holder at a time, fenced by tokens.
//!
//! A holder never knows that it still holds its lease: it may have been stopped for longer than the lease
//! lasts. So it does not ask. What it does as the holder is a transaction with the condition [`Lease::held`],
//! which the store checks by its own time in the moment of the commit.

use crate::error::Result;
use crate::read::{Holding, Read};
use crate::store::ControlStore;
use crate::transaction::{Condition, Effect, Outcome, Token, Transaction};
use std::sync::Arc;
use std::time::Duration;

/// A lease that this process was granted. It lapses if it is not renewed; dropping it does not release it,
/// for that may take as long as the store takes.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use whimbrel_control::{ControlStore, Effect, Lease, ManualClock, MemoryStore, Transaction};
///
/// let clock = ManualClock::default();
/// let store: Arc<dyn ControlStore> = Arc::new(MemoryStore::new(clock.clone()));
/// let ttl = Duration::from_secs(10);
/// let lease = Lease::acquire(&store, "channel-3", "worker-a", ttl)?.expect("nobody holds it");
/// assert!(Lease::acquire(&store, "channel-3", "worker-b", ttl)?.is_none());
///
/// clock.advance(ttl);
/// let write = Transaction::new()
///     .when(lease.held())
///     .then(Effect::Append { log: "lineage".into(), record: vec![1] });
/// assert!(!store.commit(&write)?.is_committed());
/// # Ok::<(), whimbrel_control::Error>(())
/// ```
#[must_use = "nobody else gets the lease until it lapses"]
#[derive(Clone)]
pub struct Lease {
    store: Arc<dyn ControlStore>,
    name: String,
    token: Token,
}

impl Lease {
    /// Acquires a lease if nobody holds it.
    ///
    /// # Errors
    /// `Invalid` if the time is not of whole milliseconds; those of the store.
    pub fn acquire(
        store: &Arc<dyn ControlStore>,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>> {
        let transaction = Transaction::new()
            .when(Condition::Free { lease: name.to_string() })
            .then(Effect::Grant { lease: name.to_string(), holder: holder.to_string(), ttl });
        match store.commit(&transaction)? {
            Outcome::Committed { version, .. } => Ok(Some(Lease::of(store, name, Token(version)))),
            Outcome::Conflict { .. } => Ok(None),
        }
    }

    /// A lease that a transaction of one's own granted: its token is the version of the transaction.
    pub fn of(store: &Arc<dyn ControlStore>, name: &str, token: Token) -> Lease {
        Lease { store: store.clone(), name: name.to_string(), token }
    }

    /// Who holds a lease at this moment.
    ///
    /// # Errors
    /// Those of the store.
    pub fn holding(store: &dyn ControlStore, name: &str) -> Result<Option<Holding>> {
        store.read(&Read::Holding { lease: name.to_string() })?.holding()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its token.
    pub fn token(&self) -> Token {
        self.token
    }

    /// That it is still held under its token: a condition of all that the holder commits.
    pub fn held(&self) -> Condition {
        Condition::Held { lease: self.name.clone(), token: self.token }
    }

    /// Lets it last so long from now; false if it has lapsed or was given to another.
    ///
    /// # Errors
    /// As [`acquire`](Lease::acquire).
    pub fn renew(&self, ttl: Duration) -> Result<bool> {
        Ok(self.store.commit(&self.renewal(ttl))?.is_committed())
    }

    /// What renews it: those of many leases can be committed as one group.
    pub fn renewal(&self, ttl: Duration) -> Transaction {
        Transaction::new().when(self.held()).then(Effect::Renew { lease: self.name.clone(), ttl })
    }

    /// Gives it back; false if it has lapsed or was given to another.
    ///
    /// # Errors
    /// Those of the store.
    pub fn release(self) -> Result<bool> {
        let release = Transaction::new().when(self.held()).then(Effect::Release { lease: self.name.clone() });
        Ok(self.store.commit(&release)?.is_committed())
    }
}
