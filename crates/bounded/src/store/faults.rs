//! A store with counters, delays and injected crashes, for tests and experiments.
//!
//! Invariant: an *operation* is one request of a read, or one write. A store that writes key by key can crash
//! between any two writes of a commit. One that commits as a whole crashes before or after the whole commit.

use super::interface::{Atomicity, Capabilities, Condition, Found, Outcome, Read, Store, Write};
use crate::error::{Error, Result};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// What a store was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operations {
    /// Requests of reads.
    pub requests: u64,
    /// Calls of reads: sequential rounds, if one query runs.
    pub rounds: u64,
    /// Keys and values that came back.
    pub tuples: u64,
    /// Bytes that came back.
    pub bytes: u64,
    /// Conditions of commits.
    pub conditions: u64,
    /// Writes.
    pub writes: u64,
}

/// How a store misbehaves.
#[derive(Debug)]
pub struct Faults {
    /// Operations left until it is gone; negative for never.
    left: AtomicI64,
    delay_nanos: AtomicU64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults { left: AtomicI64::new(-1), delay_nanos: AtomicU64::new(0) }
    }
}

impl Faults {
    /// After so many more operations the store is gone, as its client is after a crash.
    pub fn crash_after(&self, operations: u32) {
        self.left.store(operations.into(), Ordering::SeqCst);
    }

    /// The store is back, with what had been written.
    pub fn recover(&self) {
        self.left.store(-1, Ordering::SeqCst);
    }

    /// Every call of the store takes so much longer.
    pub fn delay(&self, each: Duration) {
        self.delay_nanos.store(each.as_nanos() as u64, Ordering::SeqCst);
    }

    /// Counts an operation; fails if the store is gone.
    fn step(&self) -> Result<()> {
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            return Err(Error::Unavailable("the store is gone: it was told to".to_string()));
        }
        if left > 0 {
            self.left.store(left - 1, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Waits as long as calls are delayed.
    fn wait(&self) {
        let nanos = self.delay_nanos.load(Ordering::SeqCst);
        if nanos > 0 {
            std::thread::sleep(Duration::from_nanos(nanos));
        }
    }
}

/// A store that counts, and that can be slowed down and broken.
#[derive(Debug)]
pub struct Observed<S> {
    store: S,
    /// What is wrong with it.
    pub faults: Faults,
    requests: AtomicU64,
    rounds: AtomicU64,
    tuples: AtomicU64,
    bytes: AtomicU64,
    conditions: AtomicU64,
    writes: AtomicU64,
}

impl<S: Store> Observed<S> {
    /// Watches a store.
    pub fn new(store: S) -> Observed<S> {
        Observed {
            store,
            faults: Faults::default(),
            requests: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            tuples: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            conditions: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        }
    }

    /// The store itself.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// What it was asked since the last time; counting begins again.
    pub fn take(&self) -> Operations {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::SeqCst);
        Operations {
            requests: take(&self.requests),
            rounds: take(&self.rounds),
            tuples: take(&self.tuples),
            bytes: take(&self.bytes),
            conditions: take(&self.conditions),
            writes: take(&self.writes),
        }
    }

    /// Counts the keys and bytes of an answer.
    fn count_answer(&self, found: &Found) {
        let (tuples, bytes) = found.size();
        self.tuples.fetch_add(tuples, Ordering::SeqCst);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }
}

impl<S: Store> Store for Observed<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
        self.faults.wait();
        self.rounds.fetch_add(1, Ordering::SeqCst);
        self.requests.fetch_add(requests.len() as u64, Ordering::SeqCst);
        requests.iter().try_for_each(|_| self.faults.step())?;
        let found = self.store.read(requests)?;
        found.iter().for_each(|found| self.count_answer(found));
        Ok(found)
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
        self.faults.wait();
        self.conditions.fetch_add(conditions.len() as u64, Ordering::SeqCst);
        self.writes.fetch_add(writes.len() as u64, Ordering::SeqCst);
        if self.capabilities().atomicity == Atomicity::Key && conditions.is_empty() {
            for write in writes {
                self.faults.step()?;
                self.store.commit(&[], std::slice::from_ref(write))?;
            }
            return Ok(Outcome::Done);
        }
        self.faults.step()?;
        let outcome = self.store.commit(conditions, writes)?;
        // Written, and the client was gone before it heard of it.
        self.faults.step()?;
        Ok(outcome)
    }
}
