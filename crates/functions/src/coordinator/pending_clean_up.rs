//! Queries that have ended while functions still work for them: what these write last is removed once they
//! have ended. Who ends the process waits for that.
//!
//! A forked process has none of its parent's queries.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The process, and how many such queries it has.
static QUERIES: Mutex<(u32, usize)> = Mutex::new((0, 0));
static FEWER: Condvar = Condvar::new();

/// A query whose objects are still to be removed, until this is dropped.
pub(super) struct PendingCleanUp(());

impl PendingCleanUp {
    /// One more of them.
    pub fn begin() -> PendingCleanUp {
        let mut queries = lock();
        let own = std::process::id();
        *queries = (own, if queries.0 == own { queries.1 + 1 } else { 1 });
        PendingCleanUp(())
    }
}

impl Drop for PendingCleanUp {
    fn drop(&mut self) {
        let mut queries = lock();
        queries.1 = queries.1.saturating_sub(1);
        FEWER.notify_all();
    }
}

/// Waits until everything has been removed that queries of this process have written, but not longer than
/// this.
pub fn wait_for_clean_up(limit: Duration) {
    let own = std::process::id();
    let is_busy = |queries: &mut (u32, usize)| queries.0 == own && queries.1 > 0;
    drop(FEWER.wait_timeout_while(lock(), limit, is_busy));
}

/// The number; every change is one addition.
fn lock() -> MutexGuard<'static, (u32, usize)> {
    QUERIES.lock().unwrap_or_else(PoisonError::into_inner)
}
