//! Live jobs of a cluster.

use pyo3::prelude::*;
use whimbrel_cluster::{LiveJob, LiveState};

use crate::cluster::wait_until;
use crate::error::{OrRaise, raise};

/// A live job of a cluster.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "LiveJob")]
pub struct NativeLiveJob {
    /// The job.
    pub job: LiveJob,
}

/// How far a job is: the epoch of the checkpoint that its host went on from, the last epoch that was read, the
/// last that the sink has, and when a checkpoint was written last, in milliseconds since 1970.
type ProgressTuple = (Option<u64>, u64, u64, Option<u64>);

#[pymethods]
impl NativeLiveJob {
    /// Its name.
    fn name(&self) -> &str {
        self.job.name()
    }

    /// What has become of it, and why it has failed if it has.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, Option<Bound<'py, PyAny>>)> {
        Ok(match py.detach(|| self.job.record()).or_raise()?.state {
            LiveState::Running => ("running", None),
            LiveState::Stopping => ("stopping", None),
            LiveState::Stopped => ("stopped", None),
            LiveState::Ended => ("ended", None),
            LiveState::Failed(failure) => {
                ("failed", Some(raise(failure.error()).into_value(py).into_bound(py).into_any()))
            }
        })
    }

    /// The name of the worker that hosts it, or was its host last, and how often it was begun.
    fn host(&self, py: Python<'_>) -> PyResult<(Option<String>, u32)> {
        let record = py.detach(|| self.job.record()).or_raise()?;
        Ok((record.host, record.attempt))
    }

    /// How far its last host was when it said so.
    fn progress(&self, py: Python<'_>) -> PyResult<Option<ProgressTuple>> {
        let found = py.detach(|| self.job.progress()).or_raise()?;
        Ok(found.map(|found| (found.restored_from, found.epoch, found.committed, found.checkpointed)))
    }

    /// Waits for the end, or so many seconds; whether the job is over.
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        wait_until(py, seconds, |until| self.job.wait(Some(until)))
    }

    /// Asks for it to be stopped.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.job.stop()).or_raise()
    }

    /// Removes a job that is over.
    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.job.remove()).or_raise()
    }
}
