//! Running plans: the interpreter is released while the engine works, and asked for signals twenty times a
//! second.
//!
//! A query that is interrupted, or whose `poll` raises, is cancelled before the exception goes on.

use datafusion::common::internal_err;
use pyo3::prelude::*;
use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;
use whimbrel_cli::progress::Bar;
use whimbrel_sharded::action::{self, Action, Existing};
use whimbrel_sharded::{Job, Options, Output, RuntimeKind, analyze};

use crate::counts::Count;
use crate::error::{OrRaise, Raised, invalid};
use crate::leave::{self, Inside, attached};
use crate::plan::NativePlan;
use crate::table::NativeTable;

/// How often signals are looked at.
pub const TICK: Duration = Duration::from_millis(50);

/// How a plan is run.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Options")]
pub struct NativeOptions {
    /// The engine's options.
    pub options: Options,
    /// Whether to show a progress bar; none: if there is a terminal.
    progress: Option<bool>,
}

#[pymethods]
impl NativeOptions {
    #[new]
    fn new(runtime: &str, batch_rows: Count, progress: Option<bool>) -> PyResult<NativeOptions> {
        let runtime = match runtime {
            "library" => RuntimeKind::Library,
            "local" => RuntimeKind::Local,
            other => return Err(invalid(format!("runtime is \"library\" or \"local\", not \"{other}\""))),
        };
        Ok(NativeOptions {
            options: Options { runtime, batch_rows: batch_rows.0, ..Options::default() },
            progress,
        })
    }
}

impl NativeOptions {
    /// The same, for every event as it becomes known.
    pub fn events(&self) -> Options {
        Options { output: Output::Events, ..self.options.clone() }
    }

    /// Waits for the end of a job; interrupts and what `poll` raises cancel it.
    pub fn wait(&self, py: Python<'_>, job: &Job, poll: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _inside = Inside::enter().or_raise()?;
        let mut bar = Bar::new(self.progress.unwrap_or_else(|| std::io::stderr().is_terminal()));
        loop {
            let ended = py.detach(|| guarded(|| job.wait_timeout(TICK)));
            listen(py, job, poll)?;
            if ended.or_raise()? {
                return Ok(());
            }
            bar.update(job);
        }
    }

    fn finish<T: Send>(
        &self,
        py: Python<'_>,
        action: Action<T>,
        poll: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<T> {
        self.wait(py, action.job(), poll)?;
        py.detach(|| action.wait()).or_raise()
    }
}

/// Runs a piece of a query; a panic is our bug, and an error like others.
pub fn guarded<T>(run: impl FnOnce() -> datafusion::error::Result<T>) -> datafusion::error::Result<T> {
    // What the panic left half done belongs to a job that is not used any more.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        internal_err!("the engine panicked: {what}")
    })
}

/// Looks at signals and calls `poll`; what they raise cancels the job.
pub fn listen(py: Python<'_>, job: &Job, poll: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let heard = py.check_signals().and_then(|()| leave::check().or_raise()).and_then(|()| match poll {
        Some(poll) => poll.call0().map(|_| ()),
        None => Ok(()),
    });
    heard.inspect_err(|_| job.cancel())
}

/// What a plan is expected to do.
#[pyfunction]
pub fn expected(plan: &NativePlan) -> PyResult<String> {
    Ok(analyze::explain(&plan.stream, &Options::default()).or_raise()?.text(false))
}

/// What a plan did; it is run, and its rows are thrown away. What was expected wrongly is red on a terminal.
#[pyfunction]
#[pyo3(signature = (plan, options, poll), name = "analyze")]
pub fn analyzed(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let analysis = py.detach(|| analyze::analyze(&plan.stream, &options.options)).or_raise()?;
    options.wait(py, analysis.job(), poll)?;
    Ok(analysis.wait().or_raise()?.text(std::io::stdout().is_terminal()))
}

/// The whole result.
#[pyfunction]
#[pyo3(signature = (plan, options, poll))]
pub fn collect(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<NativeTable> {
    let action = py.detach(|| action::collect(&plan.stream, &options.options)).or_raise()?;
    let table = options.finish(py, action, poll)?;
    Ok(NativeTable { schema: table.schema, batches: table.batches })
}

/// The result, held in memory, as a plan to go on with.
#[pyfunction]
#[pyo3(signature = (plan, options, poll))]
pub fn to_memory(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<NativePlan> {
    let action = py.detach(|| action::to_memory(&plan.stream, &options.options)).or_raise()?;
    Ok(NativePlan { stream: options.finish(py, action, poll)?.stream })
}

/// The result in Parquet files, one for each shard; their paths.
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
    let paths = options.finish(py, py.detach(store).or_raise()?, poll)?;
    Ok(paths.into_iter().map(|path| path.display().to_string()).collect())
}

/// The result in Arrow's IPC format, a file object for each shard.
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
        py.detach(|| action::to_binary_stream(&plan.stream, &options.options, writers)).or_raise()?;
    options.finish(py, action, poll)
}

/// A Python file object as a writer.
struct PythonFile {
    file: Py<PyAny>,
}

impl Write for PythonFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = attached(|py| {
            let written = self.file.call_method1(py, "write", (pyo3::types::PyBytes::new(py, bytes),))?;
            // Raw files may write less, and say so; others may say nothing.
            Ok(written.extract::<usize>(py).unwrap_or(bytes.len()))
        });
        written.map_err(std::io::Error::other)?.map_err(failed)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = attached(|py| match self.file.bind(py).hasattr("flush")? {
            true => self.file.call_method0(py, "flush").map(|_| ()),
            false => Ok(()),
        });
        flushed.map_err(std::io::Error::other)?.map_err(failed)
    }
}

fn failed(error: PyErr) -> std::io::Error {
    std::io::Error::other(Raised::wrap("the file object failed", error))
}
