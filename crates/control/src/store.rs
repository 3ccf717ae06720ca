//! The interface of a control store.
//!
//! All that changes a store is a [`Transaction`], and all that reads it a [`Read`]; tables, logs, queues and
//! leases are plain code over these two.

use crate::error::{Error, Result};
use crate::read::{Found, Read};
use crate::relay::Subscription;
use crate::transaction::{Outcome, Transaction};
use std::time::Duration;

/// Where clients and workers of a cluster meet.
pub trait ControlStore: Send + Sync {
    /// Applies transactions, in order, in one round trip; each is atomic by itself, and has an outcome.
    ///
    /// # Errors
    /// `Invalid` if one of them cannot be applied whatever the store holds: none is applied then.
    /// `Unavailable` if the store is away: each was applied or not, and the same values may be committed
    /// again to learn it.
    fn commit_all(&self, transactions: &[Transaction]) -> Result<Vec<Outcome>>;

    /// Reads, in one round trip; all that is found is of one moment.
    ///
    /// # Errors
    /// `Invalid` if a name is none; `Unavailable` if the store is away.
    fn read_all(&self, reads: &[Read]) -> Result<Vec<Found>>;

    /// Waits until a queue has an element, or for so long. Another one may be faster to take it.
    ///
    /// The time is real time, whatever clock the store has: a simulation polls instead.
    ///
    /// # Errors
    /// As [`read_all`](ControlStore::read_all).
    fn wait_for_element(&self, queue: &str, at_most: Duration) -> Result<()>;

    /// Listens to topics. What is published after this returned is received, unless the store is away for a
    /// while: messages are hints, see [`Subscription`].
    ///
    /// # Errors
    /// As [`read_all`](ControlStore::read_all).
    fn subscribe(&self, topics: &[&str]) -> Result<Subscription>;

    /// Removes all tables, logs, queues and leases of the namespace. Its counter of versions stays, and so do
    /// the ids that are remembered: what outlived its cluster must not pass for a part of the next one.
    ///
    /// # Errors
    /// `Unavailable` if the store is away.
    fn remove_all(&self) -> Result<()>;

    /// What it is, in messages.
    fn describe(&self) -> String;

    /// Applies one transaction.
    ///
    /// # Errors
    /// As [`commit_all`](ControlStore::commit_all).
    fn commit(&self, transaction: &Transaction) -> Result<Outcome> {
        one(self.commit_all(std::slice::from_ref(transaction))?)
    }

    /// Reads one thing.
    ///
    /// # Errors
    /// As [`read_all`](ControlStore::read_all).
    fn read(&self, read: &Read) -> Result<Found> {
        one(self.read_all(std::slice::from_ref(read))?)
    }
}

/// The only answer to the only question.
fn one<T>(answers: Vec<T>) -> Result<T> {
    answers
        .into_iter()
        .next()
        .ok_or_else(|| Error::Damaged("the control store left out an answer".to_string()))
}
