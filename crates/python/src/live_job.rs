//! Live jobs of a cluster.

use pyo3::prelude::*;
use whimbrel_cluster::{LiveJob, LiveJobOptions, LiveState};
use whimbrel_session::durable::{folder_format, wall_duration};
use whimbrel_sharded::error::Failure;

use crate::arguments::Length;
use crate::cluster::{ActivityTuple, NativeCluster, activity_of_job, wait_until};
use crate::error::{OrRaise, raise};
use crate::plan::NativePlan;
use crate::run::NativeOptions;
use crate::shutdown::detach;

/// A live job of a cluster.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "LiveJob")]
pub struct NativeLiveJob {
    job: LiveJob,
}

/// How far a job is: the epoch of the checkpoint that its host went on from, the last epoch that was read,
/// the last that the sink has, and when a checkpoint was written last, in milliseconds since 1970.
type ProgressTuple = (Option<u64>, u64, u64, Option<u64>);

#[pymethods]
impl NativeLiveJob {
    /// The job of a name.
    #[new]
    fn new(py: Python<'_>, cluster: &NativeCluster, name: &str) -> PyResult<NativeLiveJob> {
        Ok(NativeLiveJob { job: detach(py, || cluster.cluster.live_job(name)).or_raise()? })
    }

    /// Its name.
    fn name(&self) -> &str {
        self.job.name()
    }

    /// What has become of it, and why it has failed or waits, if it does.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, Option<Bound<'py, PyAny>>)> {
        let record = detach(py, || self.job.record()).or_raise()?;
        let (status, failure) = match record.state {
            LiveState::Running => ("running", record.postponed.map(|postponed| postponed.failure)),
            LiveState::Stopping => ("stopping", None),
            LiveState::Stopped => ("stopped", None),
            LiveState::Ended => ("ended", None),
            LiveState::Failed(failure) => ("failed", Some(failure)),
        };
        let error = |failure: Failure| raise(failure.error()).into_value(py).into_bound(py).into_any();
        Ok((status, failure.map(error)))
    }

    /// The name of the worker that hosts it, or was its host last, and how often it was begun.
    fn host(&self, py: Python<'_>) -> PyResult<(Option<String>, u32)> {
        let record = detach(py, || self.job.record()).or_raise()?;
        Ok((record.host, record.attempt))
    }

    /// The names of the workers that run its channels, or ran them last.
    fn workers(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let record = detach(py, || self.job.record()).or_raise()?;
        Ok(record.members().into_iter().map(str::to_string).collect())
    }

    /// How far its last host was when it said so.
    fn progress(&self, py: Python<'_>) -> PyResult<Option<ProgressTuple>> {
        let found = detach(py, || self.job.progress()).or_raise()?;
        Ok(found.map(|found| (found.restored_from, found.epoch, found.committed, found.checkpointed)))
    }

    /// What it does on its workers: rows that were read, that came out, that were late; and its operators.
    fn activity(&self, py: Python<'_>) -> PyResult<ActivityTuple> {
        activity_of_job(py, || self.job.activity(), || self.job.stream())
    }

    /// Waits for the end, or so many seconds; whether the job is over.
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        wait_until(py, seconds, |until| self.job.wait(Some(until)))
    }

    /// Asks for it to be stopped.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || self.job.stop()).or_raise()
    }

    /// Removes a job that is over.
    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || self.job.remove()).or_raise()
    }
}

/// Submits a plan that runs for ever on a cluster, with its results in a place and its state in `checkpoint`.
///
/// # Errors
/// `InvalidError` if the plan cannot be such a job, or its sources or its sink cannot be had elsewhere.
#[pyfunction]
#[pyo3(signature = (cluster, plan, options, checkpoint, every, idle, to, format))]
#[expect(clippy::too_many_arguments, reason = "the settings of one call, each with a name in Python")]
pub fn start_live(
    py: Python<'_>,
    cluster: &NativeCluster,
    plan: &NativePlan,
    options: &NativeOptions,
    checkpoint: String,
    every: Length,
    idle: Option<Length>,
    to: String,
    format: Option<&str>,
) -> PyResult<NativeLiveJob> {
    let every = wall_duration(&every.0, "every").or_raise()?;
    let stop_when_idle = idle.map(|idle| wall_duration(&idle.0, "stop_when_idle")).transpose().or_raise()?;
    let format = format.map(folder_format).transpose().or_raise()?;
    let job = LiveJobOptions { to, format, checkpoint, every, stop_when_idle };
    let submit = || cluster.cluster.run_forever(&plan.stream, &options.options, &job);
    Ok(NativeLiveJob { job: detach(py, submit).or_raise()? })
}
