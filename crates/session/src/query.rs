//! A query that runs in the background.
//!
//! A thread of its own waits for the job. In library mode that thread runs the query, so that whoever started
//! the query can look at signals while an operator computes for long.

use crate::panic;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use whimbrel_plan::Stream;
use whimbrel_plan::nodes::Scope;
use whimbrel_sharded::{Job, Options, action};

/// A query that runs in the background. Dropping it does not stop the query; [`Job::cancel`] does.
pub struct RunningQuery {
    job: Arc<Job>,
    end: Arc<End>,
}

/// How a query ended. The error is shared: several threads may wait.
type Outcome = Result<(), Arc<DataFusionError>>;

/// The outcome of a query, once there is one.
#[derive(Default)]
struct End {
    outcome: Mutex<Option<Outcome>>,
    published: Condvar,
}

impl End {
    /// The outcome is consistent after a panic of another thread: it is one value.
    fn lock(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the outcome, and wakes all who wait for it.
    fn publish(&self, outcome: Result<()>) {
        let outcome = outcome.map_err(|error| match error {
            DataFusionError::Shared(error) => error,
            error => Arc::new(error),
        });
        *self.lock() = Some(outcome);
        self.published.notify_all();
    }
}

impl RunningQuery {
    /// Starts a query. `rows` is called with its batches, those of a timed stream in the order of time.
    ///
    /// # Errors
    /// `Plan` if the plan cannot be run; `ResourcesExhausted` if there is no thread for it.
    pub fn start(
        stream: &Stream,
        options: &Options,
        mut rows: impl FnMut(RecordBatch) -> Result<()> + Send + 'static,
    ) -> Result<RunningQuery> {
        let job = action::subscribe(&merge_by_time(stream)?, options, move |_, batch| rows(batch))?;
        RunningQuery::of_job(job)
    }

    /// Waits in the background for a job that was started already.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no thread for it.
    pub fn of_job(job: impl Into<Arc<Job>>) -> Result<RunningQuery> {
        let query = RunningQuery { job: job.into(), end: Arc::default() };
        let (job, end) = (query.job.clone(), query.end.clone());
        let thread = std::thread::Builder::new().name("query".into());
        let spawned = thread.spawn(move || end.publish(panic::catch(|| job.wait())));
        spawned.map_err(|error| {
            DataFusionError::ResourcesExhausted(format!("no thread for the query: {error}"))
        })?;
        Ok(query)
    }

    /// The job: its progress, and the way to cancel it.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Whether the query has ended, with a result or with an error.
    pub fn has_ended(&self) -> bool {
        self.end.lock().is_some()
    }

    /// Waits for the end of the query.
    ///
    /// # Errors
    /// That of the query.
    pub fn wait(&self) -> Result<()> {
        let pending = self.end.published.wait_while(self.end.lock(), |outcome| outcome.is_none());
        check_outcome(&pending.unwrap_or_else(PoisonError::into_inner)).map(|_| ())
    }

    /// Waits for the end of the query, but not longer than this; whether it has ended.
    ///
    /// # Errors
    /// That of the query.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        let waited =
            self.end.published.wait_timeout_while(self.end.lock(), timeout, |outcome| outcome.is_none());
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

/// Merges the shards of a timed stream by time. A relation has no order to keep: its shards stay apart.
fn merge_by_time(stream: &Stream) -> Result<Stream> {
    let properties = stream.properties();
    match properties.shards > 1 && properties.time.is_some() {
        true => stream.reshard(Some(1), Scope::Global),
        false => Ok(stream.clone()),
    }
}
