//! A query whose channels run in other processes, as its job waits for it.

use crossbeam_channel::{Receiver, RecvTimeoutError};
use datafusion::common::{DataFusionError, Result};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use whimbrel_sharded::runtime::Execution;

/// A query that runs in other processes.
pub struct RemoteQuery {
    /// Disconnected once the query is over.
    pub is_over: Receiver<Infallible>,
    /// Why it failed, if it did.
    pub outcome: FirstError,
}

impl Execution for RemoteQuery {
    fn wait(&mut self, until: Option<Instant>) -> Result<bool> {
        let is_over = match until {
            Some(until) => self.is_over.recv_deadline(until).err() == Some(RecvTimeoutError::Disconnected),
            None => self.is_over.recv().is_err(),
        };
        if !is_over {
            return Ok(false);
        }
        self.outcome.take().map_or(Ok(true), Err)
    }
}

/// The first error of a query.
#[derive(Clone, Default)]
pub struct FirstError(Arc<Mutex<Option<DataFusionError>>>);

impl FirstError {
    /// Keeps an error, if it is the first.
    pub fn fail(&self, error: DataFusionError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn take(&self) -> Option<DataFusionError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Sender, bounded};
    use std::time::Duration;

    #[test]
    fn an_error_is_kept_until_the_query_is_over() {
        let (running, is_over) = bounded(0);
        let mut query = RemoteQuery { is_over, outcome: FirstError::default() };
        query.outcome.fail(DataFusionError::Execution("first".into()));
        query.outcome.fail(DataFusionError::Execution("second".into()));
        let soon = || Some(Instant::now() + Duration::from_millis(5));
        assert!(!query.wait(soon()).unwrap());
        drop::<Sender<Infallible>>(running);
        assert!(query.wait(soon()).unwrap_err().to_string().contains("first"));
    }
}
