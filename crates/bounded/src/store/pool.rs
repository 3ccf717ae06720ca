//! Connections to a server, shared by threads.
//!
//! Invariants: a connection is used by one thread at a time; there are never more than `most`; one that
//! failed is closed, and so are all that lie idle, for what broke one has most likely broken them. A process
//! that was forked, as the workers of a web server are, leaves the connections of its parent alone.

use crate::error::{Error, Result};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections that threads share.
pub(super) struct Pool<C> {
    state: Mutex<State<C>>,
    returned: Condvar,
    most: usize,
    /// How long a thread waits: for a server, and until another thread gives a connection back.
    wait: Duration,
}

/// The connections, idle and in use.
struct State<C> {
    idle: Vec<C>,
    /// How many are in use.
    lent: usize,
    /// The process that made the connections.
    process: u32,
}

/// A place among the connections, held while one is in use: given back even by a panic.
struct Place<'p, C>(&'p Pool<C>);

impl<C> Drop for Place<'_, C> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.lent = state.lent.saturating_sub(1);
        drop(state);
        self.0.returned.notify_one();
    }
}

impl<C> Pool<C> {
    /// A pool of at most this many connections.
    pub fn new(most: u16, wait: Duration) -> Pool<C> {
        let state = Mutex::new(State { idle: vec![], lent: 0, process: std::process::id() });
        Pool { state, returned: Condvar::new(), most: most.into(), wait }
    }

    /// The connections, locked.
    fn state(&self) -> MutexGuard<'_, State<C>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.process != std::process::id() {
            // Closing them would say goodbye to the server in the name of the parent, which goes on using
            // them.
            std::mem::take(&mut state.idle).into_iter().for_each(std::mem::forget);
            (state.lent, state.process) = (0, std::process::id());
        }
        state
    }

    /// Does something with a connection: one that is idle, or a new one.
    ///
    /// # Errors
    /// `Unavailable` if no connection is free or can be opened; else those of the call.
    pub fn with<T>(
        &self,
        connect: impl FnOnce() -> Result<C>,
        work: impl FnOnce(&mut C) -> Result<T>,
    ) -> Result<T> {
        let (place, idle) = self.take()?;
        let mut connection = match idle {
            Some(connection) => connection,
            None => connect()?,
        };
        let done = work(&mut connection);
        let closed = {
            let mut state = self.state();
            match &done {
                Ok(_) => {
                    state.idle.push(connection);
                    vec![]
                }
                Err(_) => std::mem::take(&mut state.idle),
            }
        };
        // Closing talks to the server: not while others wait for the lock.
        drop(closed);
        drop(place);
        done
    }

    /// The same for what can be done twice: once more, if it failed soon. The server may have been started
    /// again since the connection was last used; one that keeps silent would only be waited for again.
    ///
    /// # Errors
    /// As [`with`](Pool::with).
    pub fn with_again<T>(
        &self,
        connect: impl Fn() -> Result<C>,
        work: impl Fn(&mut C) -> Result<T>,
    ) -> Result<T> {
        let started = Instant::now();
        match self.with(&connect, &work) {
            Err(Error::Unavailable(_)) if started.elapsed() < self.wait / 2 => self.with(&connect, &work),
            done => done,
        }
    }

    /// An idle connection, or a new one; waits if too many are in use.
    fn take(&self) -> Result<(Place<'_, C>, Option<C>)> {
        let full = |state: &mut State<C>| state.lent >= self.most;
        let waited = self.returned.wait_timeout_while(self.state(), self.wait, full);
        let (mut state, late) = waited.unwrap_or_else(PoisonError::into_inner);
        if late.timed_out() {
            return Err(Error::Unavailable(format!(
                "all {} connections to the store are in use: open it with more (`?connections=`), or call it from fewer threads",
                self.most
            )));
        }
        state.lent += 1;
        let idle = state.idle.pop();
        drop(state);
        Ok((Place(self), idle))
    }
}

#[cfg(test)]
mod tests {
    use super::Pool;
    use crate::error::Error;
    use std::cell::Cell;
    use std::time::Duration;

    /// Counts itself.
    struct Connection<'c>(&'c Cell<i32>);

    impl Drop for Connection<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }

    #[test]
    fn connections_are_kept_and_closed_after_a_failure() {
        let open = Cell::new(0);
        let connect = || {
            open.set(open.get() + 1);
            Ok(Connection(&open))
        };
        let pool = Pool::new(2, Duration::from_millis(10));
        // Two at once, and no third.
        let third = pool.with(connect, |_| {
            pool.with(connect, |_| Ok(pool.with(connect, |_| Ok(())).unwrap_err().to_string()))
        });
        assert!(third.is_ok_and(|refused| refused.contains("all 2 connections")));
        assert_eq!(open.get(), 2);
        assert!(pool.with(connect, |_| Ok(())).is_ok());
        assert_eq!(open.get(), 2);
        let failed = pool.with(connect, |_| Err::<(), _>(Error::Unavailable("gone".to_string())));
        assert!(failed.is_err());
        assert_eq!(open.get(), 0);
    }

    #[test]
    fn a_forked_process_leaves_its_parents_connections_alone() {
        let open = Cell::new(0);
        let connect = || {
            open.set(open.get() + 1);
            Ok(Connection(&open))
        };
        let pool = Pool::new(1, Duration::from_millis(10));
        assert!(pool.with(connect, |_| Ok(())).is_ok());
        // As if this were another process than the one that connected.
        pool.state().process = 0;
        pool.with(connect, |_| Err::<(), _>(Error::Unavailable("gone".to_string()))).unwrap_err();
        assert_eq!(open.get(), 1, "the parent's is open, the other is closed");
    }
}
