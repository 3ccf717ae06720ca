//! A query that runs in the background.
//!
//! A thread of its own waits for the job. In library mode that thread runs the query, so that whoever started
//! the query can look at signals while an operator computes for long. A scheduler's threads run it without.

use crate::panic;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use std::sync::Arc;
use std::time::Duration;
use whimbrel_plan::Stream;
use whimbrel_plan::nodes::Scope;
use whimbrel_sharded::{End, Job, Options, action};

/// A query that runs in the background. Dropping it does not stop the query; [`Job::cancel`] does.
pub struct RunningQuery {
    job: Arc<Job>,
    end: Arc<End>,
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
    /// `ResourcesExhausted` if there is no thread for it; `Plan` if those of its scheduler are in another
    /// process.
    pub fn of_job(job: impl Into<Arc<Job>>) -> Result<RunningQuery> {
        let job: Arc<Job> = job.into();
        if let Some(end) = job.detach()? {
            return Ok(RunningQuery { job, end });
        }
        let query = RunningQuery { job, end: Arc::default() };
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
        self.end.is_there()
    }

    /// Waits for the end of the query.
    ///
    /// # Errors
    /// That of the query.
    pub fn wait(&self) -> Result<()> {
        self.end.wait()
    }

    /// Waits for the end of the query, but not longer than this; whether it has ended.
    ///
    /// # Errors
    /// That of the query.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        self.end.wait_timeout(timeout)
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
