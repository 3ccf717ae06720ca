//! The end of a query that nobody has to wait for.

use datafusion::common::{DataFusionError, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How a query ended. The error is shared: several threads may wait.
type Outcome = Result<(), Arc<DataFusionError>>;

/// The outcome of a query, once there is one.
#[derive(Default)]
pub struct End {
    outcome: Mutex<Option<Outcome>>,
    published: Condvar,
}

impl End {
    /// The outcome is consistent after a panic of another thread: it is one value.
    fn lock(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the outcome, and wakes all who wait for it.
    pub fn publish(&self, outcome: Result<()>) {
        let outcome = outcome.map_err(|error| match error {
            DataFusionError::Shared(error) => error,
            error => Arc::new(error),
        });
        *self.lock() = Some(outcome);
        self.published.notify_all();
    }

    /// Whether the query has ended, with a result or with an error.
    pub fn is_there(&self) -> bool {
        self.lock().is_some()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// That of the query.
    pub fn wait(&self) -> Result<()> {
        let pending = self.published.wait_while(self.lock(), |outcome| outcome.is_none());
        check_outcome(&pending.unwrap_or_else(PoisonError::into_inner)).map(|_| ())
    }

    /// Waits for the end, but not longer than this; whether the query has ended.
    ///
    /// # Errors
    /// That of the query.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        let waited = self.published.wait_timeout_while(self.lock(), timeout, |outcome| outcome.is_none());
        check_outcome(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// Whether there is an outcome.
///
/// # Errors
/// That of the query.
fn check_outcome(outcome: &Option<Outcome>) -> Result<bool> {
    match outcome {
        Some(Err(error)) => Err(DataFusionError::Shared(error.clone())),
        Some(Ok(())) => Ok(true),
        None => Ok(false),
    }
}
