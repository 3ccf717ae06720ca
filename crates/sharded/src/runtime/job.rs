//! Jobs: queries that run.

use super::Control;
use crate::end::End;
use crate::options::Execution;
use crate::progress::Progress;
use datafusion::common::{DataFusionError, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A query that runs. Dropping it cancels the query.
///
/// ```
/// use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use std::sync::Arc;
/// use whimbrel_plan::Stream;
/// use whimbrel_sharded::dataset::MemoryDataset;
/// use whimbrel_sharded::{Options, run};
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let rows = RecordBatch::try_from_iter([("n", column)])?;
/// let dataset = MemoryDataset::new(rows.schema(), vec![vec![rows]])?;
/// let query = Stream::scan("numbers", Arc::new(dataset))?;
/// let job = run(&query, &Options::default(), Box::new(|_shard, _message| Ok(())))?;
/// job.wait()?;
/// assert_eq!((job.rows_read(), job.rows_out()), (3, 3));
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[must_use = "a query stops when its job is dropped"]
pub struct Job {
    progress: Progress,
    execution: Mutex<State>,
}

/// Whether a job runs or has ended, and with which error.
enum State {
    Running(Box<dyn Execution>),
    Ended(Option<Arc<DataFusionError>>),
}

impl Job {
    /// The job that a runtime has started.
    pub(crate) fn new(control: Arc<Control>, execution: Box<dyn Execution>) -> Job {
        Job { progress: Progress::new(control), execution: Mutex::new(State::Running(execution)) }
    }

    /// Its progress, for other threads.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// How many rows have been read from sources.
    pub fn rows_read(&self) -> u64 {
        self.progress.rows_read()
    }

    /// How many rows will be read in all, if that is known and not zero.
    pub fn rows_total(&self) -> Option<u64> {
        self.progress.rows_total()
    }

    /// How many rows came too late and were dropped.
    pub fn rows_late(&self) -> u64 {
        self.progress.rows_late()
    }

    /// How many rows the result has so far.
    pub fn rows_out(&self) -> u64 {
        self.progress.rows_out()
    }

    /// Cancels it: no more rows come out from now on.
    pub fn cancel(&self) {
        self.progress.cancel();
    }

    /// Whether the job was cancelled.
    pub fn cancelled(&self) -> bool {
        self.progress.cancelled()
    }

    /// Waits for the end. In library mode the query runs here.
    ///
    /// # Errors
    /// The first error of the query. A cancelled job ends without one.
    pub fn wait(&self) -> Result<()> {
        self.wait_until(None).map(|_| ())
    }

    /// Waits for the end, but not longer than this; whether it has ended. In library mode the query runs
    /// here.
    ///
    /// # Errors
    /// As [`wait`](Job::wait).
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    /// Lets it run without anybody who waits for it, if its runtime can do that; what tells of its end then.
    ///
    /// # Errors
    /// `Plan` if this process cannot run it.
    pub fn detach(&self) -> Result<Option<Arc<End>>> {
        match &mut *self.execution.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Running(execution) => execution.detach(),
            State::Ended(_) => Ok(None),
        }
    }

    /// Waits for the end, or until an instant; keeps the error for those who ask again.
    fn wait_until(&self, until: Option<Instant>) -> Result<bool> {
        let mut state = self.execution.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Running(execution) = &mut *state {
            let ended = match execution.wait(until) {
                Ok(false) => return Ok(false),
                Ok(true) => None,
                Err(error) => Some(Arc::new(error)),
            };
            *state = State::Ended(ended);
        }
        match &*state {
            State::Ended(Some(error)) => Err(DataFusionError::Shared(error.clone())),
            _ => Ok(true),
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let ended = match self.execution.get_mut() {
            Ok(state) => matches!(state, State::Ended(_)),
            Err(_) => false,
        };
        if !ended {
            self.cancel();
        }
    }
}
