//! Results as they become known: to Python functions, in the background.
//!
//! A function is called on a thread of the engine, which enters the interpreter for each batch. An
//! exception that it raises ends the query. A function for late rows only prints its exceptions, as late
//! rows are no part of the result.

use arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use whimbrel_session::RunningQuery;
use whimbrel_sharded::{Job, LateRows, Options, Progress, action, run};
use whimbrel_temporal::Message;

use crate::activity::{self, OperatorTuple};
use crate::arguments::{Count, deadline};
use crate::error::{OrRaise, PythonError, invalid};
use crate::events;
use crate::plan::NativePlan;
use crate::run::{NativeOptions, POLL_INTERVAL, poll_signals};
use crate::shutdown::{self, InterpreterGuard, attach, detach};
use crate::table::NativeTable;

/// A query that runs in the background.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Job", weakref)]
pub struct NativeJob {
    query: RunningQuery,
    /// The process that runs it: a fork has none of its threads.
    process: u32,
}

/// The messages of one shard.
type Messages = Mutex<Vec<Message>>;

impl NativeJob {
    /// Waits in the background for a job.
    ///
    /// # Errors
    /// `ResourceExhaustedError` if there is no thread for it.
    fn start(job: Job) -> PyResult<NativeJob> {
        Ok(NativeJob { query: RunningQuery::of_job(job).or_raise()?, process: std::process::id() })
    }
}

#[pymethods]
impl NativeJob {
    /// Waits for the end, for at most so many seconds; whether the query has ended.
    #[pyo3(signature = (seconds, poll))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>, poll: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let wait = |timeout| self.query.wait_timeout(timeout);
        wait_in_background(py, self.process, seconds, wait, || poll_signals(py, self.query.job(), poll))
    }

    /// Stops the query.
    fn cancel(&self) {
        self.query.job().cancel();
    }

    /// Whether it has ended, with a result or with an error.
    fn done(&self) -> bool {
        self.query.has_ended()
    }

    /// The rows that were read from sources.
    fn rows_read(&self) -> u64 {
        self.query.job().rows_read()
    }

    /// The rows of the result so far.
    fn rows_out(&self) -> u64 {
        self.query.job().rows_out()
    }

    /// The rows that came too late.
    fn rows_late(&self) -> u64 {
        self.query.job().rows_late()
    }

    /// What the operators have done so far.
    #[pyo3(signature = (clock))]
    fn activity(&self, py: Python<'_>, clock: Option<&str>) -> PyResult<Vec<OperatorTuple>> {
        activity::of(py, self.query.job().progress(), clock)
    }
}

/// Waits for a query in slices of time, for so many seconds at most; whether it has ended. Between two
/// slices, signals are handled by `poll`.
///
/// # Errors
/// That of the query, and of `poll`; `InvalidError` if another process runs the query.
pub fn wait_in_background(
    py: Python<'_>,
    process: u32,
    seconds: Option<f64>,
    wait: impl Fn(Duration) -> datafusion::error::Result<bool> + Sync,
    poll: impl Fn() -> PyResult<()>,
) -> PyResult<bool> {
    check_process(process)?;
    if shutdown::is_computing() {
        return Err(invalid(
            "a function that computes values of a query cannot wait for a query that runs in the background: \
             it may be its own, which would wait for itself. Return from it, and wait where the query was begun",
        ));
    }
    let _guard = InterpreterGuard::new().or_raise()?;
    let until = deadline(seconds);
    loop {
        let left = until.map_or(POLL_INTERVAL, |until| until.saturating_duration_since(Instant::now()));
        let ended = detach(py, || wait(left.min(POLL_INTERVAL)));
        poll()?;
        if ended.or_raise()? {
            return Ok(true);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(false);
        }
    }
}

/// Refuses to wait for a query of another process: a fork has none of its threads.
///
/// # Errors
/// `InvalidError` if it is another process.
pub fn check_process(process: u32) -> PyResult<()> {
    match process == std::process::id() {
        true => Ok(()),
        false => Err(invalid(format!(
            "this query runs in process {process}, of which this one is a fork; wait for it there, or run it again here"
        ))),
    }
}

/// Calls a function with each table of the result, and another one with tables of late rows.
///
/// # Errors
/// `InvalidError` if the plan cannot be run; `ResourceExhaustedError` if there is no thread for it.
#[pyfunction]
#[pyo3(signature = (plan, options, callback, late))]
pub fn subscribe(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    callback: Py<PyAny>,
    late: Option<Py<PyAny>>,
) -> PyResult<NativeJob> {
    let options = with_late_rows(options.options.clone(), late);
    let call = move |_, batch: RecordBatch| -> datafusion::error::Result<()> {
        attach(|py| callback.call1(py, (table(batch),)).map(|_| ()))?.map_err(callback_failed)
    };
    let job = detach(py, || action::subscribe(&plan.stream, &options, call)).or_raise()?;
    NativeJob::start(job)
}

/// Runs a query whose result others read: its plan, and the query.
///
/// # Errors
/// As [`subscribe`].
#[pyfunction]
#[pyo3(signature = (plan, options))]
pub fn publish(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
) -> PyResult<(NativePlan, NativeJob)> {
    let published = detach(py, || action::publish(&plan.stream, &options.options)).or_raise()?;
    Ok((NativePlan { stream: published.stream }, NativeJob::start(published.job)?))
}

/// Calls a function with each list of events.
///
/// # Errors
/// As [`subscribe`].
#[pyfunction]
#[pyo3(signature = (plan, options, callback, late))]
pub fn subscribe_events(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    callback: Py<PyAny>,
    late: Option<Py<PyAny>>,
) -> PyResult<NativeJob> {
    let options = with_late_rows(options.events(), late);
    let time = plan.stream.properties().time.clone();
    let sink = move |_, message: Message| -> datafusion::error::Result<()> {
        let call = |py: Python<'_>| {
            let events = events::from_message(py, &message, time.as_ref())?;
            callback.call1(py, (PyList::new(py, events)?,)).map(|_| ())
        };
        attach(call)?.map_err(callback_failed)
    };
    let job = detach(py, || run(&plan.stream, &options, Box::new(sink))).or_raise()?;
    NativeJob::start(job)
}

/// All events of the result, shard after shard.
///
/// # Errors
/// The exception for the error of the query; what a signal handler or `poll` raises.
#[pyfunction]
#[pyo3(signature = (plan, options, poll))]
pub fn collect_events(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    let shards = plan.stream.properties().shards;
    let messages: Arc<Vec<Messages>> = Arc::new((0..shards).map(|_| Messages::default()).collect());
    let collected = messages.clone();
    let sink = move |shard: usize, message: Message| {
        collected[shard].lock().unwrap_or_else(PoisonError::into_inner).push(message);
        Ok(())
    };
    let job = detach(py, || run(&plan.stream, &options.events(), Box::new(sink))).or_raise()?;
    options.wait(py, &job, poll)?;
    let time = plan.stream.properties().time.as_ref();
    let mut all = Vec::new();
    for shard in messages.iter() {
        for message in shard.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            all.extend(events::from_message(py, message, time)?);
        }
    }
    Ok(all)
}

/// The first rows of each shard. A bounded query ends when every shard has so many rows, a live one when
/// all together have.
///
/// # Errors
/// As [`collect_events`].
#[pyfunction]
#[pyo3(signature = (plan, options, rows, poll))]
pub fn head(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    rows: Count,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<NativeTable> {
    let (rows, properties) = (rows.0, plan.stream.properties());
    let schema = action::schema(&plan.stream, &options.options);
    let heads: Arc<Mutex<Vec<Head>>> = Arc::new(Mutex::new(vec![Head::default(); properties.shards]));
    let (progress, bounded) = (Arc::new(OnceLock::<Progress>::new()), properties.bounded);
    let (to_cancel, filling) = (progress.clone(), heads.clone());
    let fill = move |shard: usize, batch: RecordBatch| {
        let mut heads = filling.lock().unwrap_or_else(PoisonError::into_inner);
        heads[shard].push(batch, rows);
        let is_enough = match bounded {
            true => heads.iter().all(|head| head.rows >= rows),
            false => heads.iter().map(|head| head.rows).sum::<usize>() >= rows,
        };
        if let (true, Some(progress)) = (is_enough, to_cancel.get()) {
            progress.cancel();
        }
        Ok(())
    };
    let job = detach(py, || action::subscribe(&plan.stream, &options.options, fill)).or_raise()?;
    // The query may end before this. Then there is nothing to cancel.
    let _ = progress.set(job.progress().clone());
    options.wait(py, &job, poll)?;
    drop(job);
    let heads = std::mem::take(&mut *heads.lock().unwrap_or_else(PoisonError::into_inner));
    let batches = heads.into_iter().flat_map(|head| head.batches).collect();
    let table = NativeTable { schema, batches };
    if properties.time.is_some() && properties.shards > 1 { table.sorted_by_first() } else { Ok(table) }
}

/// The first rows of a shard.
#[derive(Default, Clone)]
struct Head {
    batches: Vec<RecordBatch>,
    rows: usize,
}

impl Head {
    /// Adds rows until there are `max_rows`.
    fn push(&mut self, batch: RecordBatch, max_rows: usize) {
        let taken = batch.num_rows().min(max_rows.saturating_sub(self.rows));
        self.rows += taken;
        if taken > 0 {
            self.batches.push(batch.slice(0, taken));
        }
    }
}

/// The options, with a function for late rows.
pub fn with_late_rows(options: Options, late: Option<Py<PyAny>>) -> Options {
    let Some(late) = late else { return options };
    let call: LateRows = Arc::new(move |batch| {
        // When the interpreter is ending, late rows are dropped.
        let _ = attach(|py| {
            if let Err(error) = late.call1(py, (table(batch),)) {
                // Late rows are a side output: the query goes on, and Python prints the exception.
                error.write_unraisable(py, Some(late.bind(py)));
            }
        });
    });
    Options { late: Some(call), ..options }
}

/// A table of one batch.
pub fn table(batch: RecordBatch) -> NativeTable {
    NativeTable { schema: batch.schema(), batches: vec![batch] }
}

/// The error of a function that raised an exception.
pub fn callback_failed(error: PyErr) -> DataFusionError {
    PythonError::wrap("the function that was subscribed failed", error)
}
