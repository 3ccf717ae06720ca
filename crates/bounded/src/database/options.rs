//! Options of a database.

use crate::execute::Executor;
use std::time::Duration;

/// How a database is used.
#[derive(Debug, Clone)]
pub struct Options {
    /// How requests are handed to the store.
    pub executor: Executor,
    /// Whether `prepare` makes the indexes that a statement needs.
    pub make_indexes: bool,
    /// The most requests that one call may take; a query with a larger bound is refused.
    pub most_requests: u64,
    /// What cursors are signed with; without it, a key that the store keeps.
    pub cursor_key: Option<[u8; 32]>,
    /// How long a statement is tried again while others change the same rows, or the schema, before it is a
    /// [`Conflict`](Error::Conflict).
    pub conflict_timeout: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            executor: Executor::Parallel,
            make_indexes: true,
            most_requests: 10_000,
            cursor_key: None,
            conflict_timeout: Duration::from_secs(5),
        }
    }
}
