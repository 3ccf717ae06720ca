//! Actions that wait for their result. The interpreter is released while the engine works, and handles
//! signals twenty times a second.
//!
//! A query runs on the threads of its runtime; in library mode on the thread that waits here. Between two
//! looks at signals it may run for as long as an operator computes.
//!
//! Invariant: a query that is interrupted, or whose `poll` raises, is cancelled before the exception is
//! passed on.

use datafusion::common::DataFusionError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use whimbrel_functions::Functions;
use whimbrel_process::progress::QueryProgress;
use whimbrel_session::panic;
use whimbrel_sharded::action::{self, Action, Existing};
use whimbrel_sharded::program::TaskId;
use whimbrel_sharded::{Job, Options, Output, RuntimeKind, Scheduler, analyze, replay as tapes};

use crate::arguments::Count;
use crate::error::{OrRaise, PythonError, invalid};
use crate::function_service::bill_dict;
use crate::plan::NativePlan;
use crate::remote::Remote;
use crate::shutdown::{self, InterpreterGuard, attach, detach};
use crate::table::NativeTable;

/// How often signals are handled.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Threads that run queries in turns.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Scheduler")]
pub struct NativeScheduler(Arc<Scheduler>);

#[pymethods]
impl NativeScheduler {
    /// So many threads.
    #[new]
    fn new(threads: Count) -> PyResult<NativeScheduler> {
        Ok(NativeScheduler(Arc::new(Scheduler::new(threads.0).or_raise()?)))
    }

    /// How many queries have not ended.
    fn queries(&self) -> usize {
        self.0.queries()
    }
}

/// How a plan is run.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Options")]
pub struct NativeOptions {
    /// The options of the runtime.
    pub options: Options,
    /// Whether a progress bar is shown. By default if standard error is a terminal.
    progress: Option<bool>,
    /// The functions that it runs on, if it does.
    functions: Option<Functions>,
}

#[pymethods]
impl NativeOptions {
    /// Options for one action.
    #[new]
    #[pyo3(signature = (runtime, batch_rows, progress, remote = None, scheduler = None))]
    fn new(
        runtime: &str,
        batch_rows: Count,
        progress: Option<bool>,
        remote: Option<Remote<'_>>,
        scheduler: Option<&NativeScheduler>,
    ) -> PyResult<NativeOptions> {
        let runtime = match runtime {
            "library" => RuntimeKind::Library,
            "local" => RuntimeKind::Local,
            other => return Err(invalid(format!("runtime is \"library\" or \"local\", not \"{other}\""))),
        };
        let functions = remote.as_ref().and_then(Remote::functions);
        let remote = remote.map(|remote| remote.runtime());
        Ok(NativeOptions {
            options: Options {
                runtime,
                batch_rows: batch_rows.0,
                scheduler: scheduler.map(|scheduler| scheduler.0.clone()),
                remote,
                ..Options::default()
            },
            progress,
            functions,
        })
    }

    /// What a plan is expected to take on the functions of these options, beside what the query has taken
    /// that was run with them; nothing elsewhere.
    fn forecast(&self, py: Python<'_>, plan: &NativePlan) -> PyResult<String> {
        let Some(functions) = &self.functions else { return Ok(String::new()) };
        let text = || functions.explain_text(&plan.stream, &self.options, functions.bill().as_ref());
        detach(py, text).or_raise()
    }

    /// The bill of the query that was run with these options, if it ran on functions.
    fn bill<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let bill = self.functions.as_ref().and_then(Functions::bill);
        bill.map(|bill| bill_dict(py, &bill)).transpose()
    }
}

impl NativeOptions {
    /// The same options for a result of events.
    pub fn events(&self) -> Options {
        Options { output: Output::Events, ..self.options.clone() }
    }

    /// Waits for the end of a job. What a signal handler or `poll` raises cancels it.
    ///
    /// # Errors
    /// That exception; the one for the error of the job.
    pub fn wait(&self, py: Python<'_>, job: &Job, poll: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _guard = InterpreterGuard::new().or_raise()?;
        let mut progress =
            QueryProgress::new(self.progress.unwrap_or_else(|| std::io::stderr().is_terminal()));
        loop {
            let ended = detach(py, || panic::catch(|| job.wait_timeout(POLL_INTERVAL)));
            poll_signals(py, job, poll)?;
            if ended.or_raise()? {
                return Ok(());
            }
            progress.update(job);
        }
    }

    /// Waits for the result of an action.
    fn finish<T: Send>(
        &self,
        py: Python<'_>,
        action: Action<T>,
        poll: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<T> {
        self.wait(py, action.job(), poll)?;
        detach(py, || action.wait()).or_raise()
    }
}

/// Handles signals and calls `poll`. What they raise cancels the job.
///
/// # Errors
/// That exception.
pub fn poll_signals(py: Python<'_>, job: &Job, poll: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let polled = py.check_signals().and_then(|()| shutdown::check().or_raise()).and_then(|()| match poll {
        Some(poll) => poll.call0().map(|_| ()),
        None => Ok(()),
    });
    polled.inspect_err(|_| job.cancel())
}

/// The text of a plan with its estimates.
///
/// # Errors
/// `InvalidError` if the plan cannot be cut into stages.
#[pyfunction]
#[pyo3(name = "expected")]
pub fn explain_estimates(plan: &NativePlan) -> PyResult<String> {
    Ok(analyze::explain(&plan.stream, &Options::default()).or_raise()?.text(false))
}

/// Runs a plan for its statistics, without its rows. On a terminal, wrong estimates are red.
///
/// # Errors
/// As [`collect`].
#[pyfunction]
#[pyo3(signature = (plan, options, poll), name = "analyze")]
pub fn explain_analyze(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let analysis = detach(py, || analyze::analyze(&plan.stream, &options.options)).or_raise()?;
    options.wait(py, analysis.job(), poll)?;
    let explained = detach(py, || analysis.wait()).or_raise()?;
    Ok(explained.text(std::io::stdout().is_terminal()))
}

/// A task of a query: its stage, its channel, its number there, and the digest of what it handed out.
type Task<'py> = (usize, usize, u64, Bound<'py, PyBytes>);

/// Runs a plan, runs each of its channels again from its tape, and gives its tasks. The result is dropped.
///
/// # Errors
/// `InvalidError` if a stage cannot be replayed; `DataError` if a task hands out something else; the
/// exception for the error of the query.
#[pyfunction]
pub fn replay<'py>(py: Python<'py>, plan: &NativePlan, options: &NativeOptions) -> PyResult<Vec<Task<'py>>> {
    let recorded = detach(py, || {
        let recording = tapes::record(&plan.stream, &options.options)?;
        recording.check()?;
        Ok::<_, DataFusionError>(recording)
    });
    let task = |(task, digest): (TaskId, [u8; 32])| {
        (task.channel.stage, task.channel.channel, task.sequence, PyBytes::new(py, &digest))
    };
    Ok(recorded.or_raise()?.tasks().map(task).collect())
}

/// The complete result.
///
/// # Errors
/// The exception for the error of the query; what a signal handler or `poll` raises.
#[pyfunction]
#[pyo3(signature = (plan, options, poll))]
pub fn collect(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<NativeTable> {
    let action = detach(py, || action::collect(&plan.stream, &options.options)).or_raise()?;
    let table = options.finish(py, action, poll)?;
    Ok(NativeTable { schema: table.schema, batches: table.batches })
}

/// A plan over the result, which is kept in memory.
///
/// # Errors
/// As [`collect`].
#[pyfunction]
#[pyo3(signature = (plan, options, poll))]
pub fn to_memory(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<NativePlan> {
    let action = detach(py, || action::to_memory(&plan.stream, &options.options)).or_raise()?;
    Ok(NativePlan { stream: options.finish(py, action, poll)?.stream })
}

/// The result in Parquet files, one for each shard; their paths.
///
/// # Errors
/// As [`collect`]; `InvalidError` if the folder has files that are not to be replaced.
#[pyfunction]
#[pyo3(signature = (plan, options, folder, replace, poll))]
pub fn to_storage(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    folder: &str,
    replace: bool,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<String>> {
    let existing = if replace { Existing::Replace } else { Existing::Refuse };
    let store = || action::to_storage(&plan.stream, &options.options, Path::new(folder), existing);
    let paths = options.finish(py, detach(py, store).or_raise()?, poll)?;
    Ok(paths.into_iter().map(|path| path.display().to_string()).collect())
}

/// The result in Arrow's IPC format, a file object for each shard.
///
/// # Errors
/// As [`collect`]; `DataError` if a file object raises an exception.
#[pyfunction]
#[pyo3(signature = (plan, options, files, poll))]
pub fn to_binary_stream(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    files: Vec<Py<PyAny>>,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let writers = files.into_iter().map(|file| Box::new(PythonFile { file }) as Box<dyn Write + Send>);
    let writers = writers.collect();
    let action =
        detach(py, || action::to_binary_stream(&plan.stream, &options.options, writers)).or_raise()?;
    options.finish(py, action, poll)
}

/// A Python file object as a writer.
struct PythonFile {
    file: Py<PyAny>,
}

impl Write for PythonFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = attach(|py| {
            let written = self.file.call_method1(py, "write", (pyo3::types::PyBytes::new(py, bytes),))?;
            // A raw file may write less, and returns how much. Others may return nothing.
            Ok(written.extract::<usize>(py).unwrap_or(bytes.len()))
        });
        written.map_err(std::io::Error::other)?.map_err(file_failed)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = attach(|py| match self.file.bind(py).hasattr("flush")? {
            true => self.file.call_method0(py, "flush").map(|_| ()),
            false => Ok(()),
        });
        flushed.map_err(std::io::Error::other)?.map_err(file_failed)
    }
}

/// The error of a file object that raised an exception.
fn file_failed(error: PyErr) -> std::io::Error {
    std::io::Error::other(PythonError::wrap("the file object failed", error))
}
