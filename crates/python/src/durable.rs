//! Jobs that survive their process.

use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use pyo3::prelude::*;
use std::time::UNIX_EPOCH;
use whimbrel_jobs::{DurableJob, JobOptions};
use whimbrel_session::durable::{Destination, folder_format, start_job, wall_duration};
use whimbrel_sharded::Options;

use crate::activity::{self, OperatorTuple};
use crate::arguments::Length;
use crate::connectors::PythonSink;
use crate::error::OrRaise;
use crate::plan::NativePlan;
use crate::run::NativeOptions;
use crate::shutdown::{self, attach, detach};
use crate::subscribe::{callback_failed, table, wait_in_background, with_late_rows};

/// A job that survives its process.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "DurableJob", weakref)]
pub struct NativeDurableJob {
    job: DurableJob,
    /// The process that runs it: a fork has none of its threads.
    process: u32,
}

#[pymethods]
impl NativeDurableJob {
    /// Waits for the end, for at most so many seconds; whether the job has ended.
    #[pyo3(signature = (seconds, poll))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>, poll: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let wait = |timeout| self.job.wait_timeout(timeout);
        wait_in_background(py, self.process, seconds, wait, || {
            py.check_signals()?;
            shutdown::check().or_raise()?;
            poll.map_or(Ok(()), |poll| poll.call0().map(|_| ()))
        })
    }

    /// Stops the job, which can go on from its state.
    fn cancel(&self) {
        self.job.stop();
    }

    /// Whether it has ended.
    fn done(&self) -> bool {
        self.job.has_ended()
    }

    /// The rows that were read from sources in this run.
    fn rows_read(&self) -> u64 {
        self.job.progress().rows_read()
    }

    /// The rows that were computed in this run, those that the sink had already among them.
    fn rows_out(&self) -> u64 {
        self.job.progress().rows_out()
    }

    /// The rows that came too late in this run.
    fn rows_late(&self) -> u64 {
        self.job.progress().rows_late()
    }

    /// What the operators have done so far.
    #[pyo3(signature = (clock))]
    fn activity(&self, py: Python<'_>, clock: Option<&str>) -> PyResult<Vec<OperatorTuple>> {
        activity::of(py, self.job.progress(), clock)
    }

    /// When the last checkpoint of this run was written, in seconds since 1970.
    fn checkpointed_at(&self) -> Option<f64> {
        let since = self.job.checkpointed_at()?.duration_since(UNIX_EPOCH).ok()?;
        Some(since.as_secs_f64())
    }

    /// The epoch of the checkpoint that this run went on from.
    fn restored_from(&self) -> Option<u64> {
        self.job.restored_from()
    }

    /// How many checkpoints were damaged.
    fn damaged_checkpoints(&self) -> usize {
        self.job.damaged_checkpoints()
    }

    /// The last epoch that was cut, and the last that the sink has.
    fn epochs(&self) -> (u64, u64) {
        (self.job.epoch(), self.job.committed())
    }
}

/// Begins a job, or goes on with the one whose state is there. Results go to a place, or to a function
/// that is called with the number of an epoch and a table of it, or to a sink of Python.
///
/// # Errors
/// `InvalidError` if the plan cannot be such a job; `DataError` if its state cannot be used.
#[pyfunction]
#[pyo3(signature = (plan, options, checkpoint, every, idle, to, format, callback, sink, late))]
#[expect(clippy::too_many_arguments, reason = "the settings of one call, each with a name in Python")]
pub fn start_durable(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    checkpoint: String,
    every: Length,
    idle: Option<Length>,
    to: Option<String>,
    format: Option<&str>,
    callback: Option<Py<PyAny>>,
    sink: Option<Py<PyAny>>,
    late: Option<Py<PyAny>>,
) -> PyResult<NativeDurableJob> {
    let every = wall_duration(&every.0, "every").or_raise()?;
    let stop_when_idle = idle.map(|idle| wall_duration(&idle.0, "stop_when_idle")).transpose().or_raise()?;
    let format = format.map(folder_format).transpose().or_raise()?;
    let options: Options = with_late_rows(options.options.clone(), late);
    let destination = match (callback, sink) {
        (_, Some(sink)) => Destination::Sink(Box::new(PythonSink(sink))),
        (Some(callback), None) => {
            Destination::Callback(Box::new(move |epoch, batch: RecordBatch| -> Result<()> {
                attach(|py| callback.call1(py, (epoch, table(batch))).map(|_| ()))?.map_err(callback_failed)
            }))
        }
        (None, None) => Destination::Place(to.unwrap_or_default(), format),
    };
    let job = JobOptions { checkpoint, every, stop_when_idle };
    let started = detach(py, || start_job(&plan.stream, &options, &job, destination));
    Ok(NativeDurableJob { job: started.or_raise()?, process: std::process::id() })
}
