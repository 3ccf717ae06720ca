//! Results as they become known: to Python functions, in the background.

use datafusion::error::DataFusionError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use whimbrel_sharded::{Job, LateRows, Options, Progress, action, run};
use whimbrel_temporal::Message;

use crate::counts::Count;
use crate::error::{OrRaise, Raised, invalid, raise};
use crate::events;
use crate::leave::{Inside, attached};
use crate::plan::NativePlan;
use crate::run::{NativeOptions, TICK, guarded, listen};
use crate::table::NativeTable;
use arrow::record_batch::RecordBatch;

/// A query that runs in the background.
///
/// A thread of its own waits for it, and so runs it in library mode; whoever else waits, waits for that
/// thread's news.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Job", weakref)]
pub struct NativeJob {
    job: Arc<Job>,
    outcome: Arc<Outcome>,
    /// The process that runs it: a fork has none of its threads.
    process: u32,
}

/// What a shard has brought.
type Kept = Mutex<Vec<Message>>;

/// How a query ended.
type End = Result<(), Arc<DataFusionError>>;

/// What is known of the end of a query.
#[derive(Default)]
struct Outcome {
    ended: Mutex<Option<End>>,
    news: Condvar,
}

impl Outcome {
    fn publish(&self, outcome: datafusion::error::Result<()>) {
        let outcome = outcome.map_err(|error| match error {
            DataFusionError::Shared(error) => error,
            error => Arc::new(error),
        });
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.news.notify_all();
    }

    /// Waits for the end for so long; how it was, if it came.
    fn wait(&self, most: Duration) -> Option<End> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.news.wait_timeout_while(ended, most, |ended| ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

impl NativeJob {
    fn start(job: Job) -> PyResult<NativeJob> {
        let (job, outcome) = (Arc::new(job), Arc::new(Outcome::default()));
        let (waiting, told) = (job.clone(), outcome.clone());
        std::thread::Builder::new()
            .name("whimbrel".into())
            .spawn(move || told.publish(guarded(|| waiting.wait())))
            .map_err(|error| {
                raise(DataFusionError::ResourcesExhausted(format!("no thread for the query: {error}")))
            })?;
        Ok(NativeJob { job, outcome, process: std::process::id() })
    }
}

#[pymethods]
impl NativeJob {
    /// Waits for the end, for at most so many seconds; whether it came.
    #[pyo3(signature = (seconds, poll))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>, poll: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        if self.process != std::process::id() {
            return Err(invalid(format!(
                "this query runs in process {}, of which this one is a fork; wait for it there, or run it again here",
                self.process
            )));
        }
        let _inside = Inside::enter().or_raise()?;
        // What is no number of seconds is no time to wait.
        let until = seconds.map(|s| Duration::try_from_secs_f64(s.clamp(0.0, 1e9)).unwrap_or_default());
        let until = until.map(|wait| Instant::now() + wait);
        loop {
            let left = until.map_or(TICK, |until| until.saturating_duration_since(Instant::now()));
            let ended = py.detach(|| self.outcome.wait(left.min(TICK)));
            listen(py, &self.job, poll)?;
            if let Some(outcome) = ended {
                return outcome.map(|()| true).map_err(|error| raise(DataFusionError::Shared(error)));
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
    }

    fn cancel(&self) {
        self.job.cancel();
    }

    /// Whether it has ended, if only by an error.
    fn done(&self) -> bool {
        self.outcome.wait(Duration::ZERO).is_some()
    }

    fn rows_read(&self) -> u64 {
        self.job.rows_read()
    }

    fn rows_out(&self) -> u64 {
        self.job.rows_out()
    }

    fn rows_late(&self) -> u64 {
        self.job.rows_late()
    }
}

/// Calls a function with each table of the result, and another with tables of rows that came too late.
#[pyfunction]
#[pyo3(signature = (plan, options, callback, late))]
pub fn subscribe(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    callback: Py<PyAny>,
    late: Option<Py<PyAny>>,
) -> PyResult<NativeJob> {
    let options = with_late(options.options.clone(), late);
    let call = move |_, batch: RecordBatch| -> datafusion::error::Result<()> {
        attached(|py| callback.call1(py, (table(batch),)).map(|_| ()))?.map_err(callback_failed)
    };
    let job = py.detach(|| action::subscribe(&plan.stream, &options, call)).or_raise()?;
    NativeJob::start(job)
}

/// Calls a function with each list of events.
#[pyfunction]
#[pyo3(signature = (plan, options, callback, late))]
pub fn subscribe_events(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    callback: Py<PyAny>,
    late: Option<Py<PyAny>>,
) -> PyResult<NativeJob> {
    let options = with_late(options.events(), late);
    let time = plan.stream.properties().time.clone();
    let sink = move |_, message: Message| -> datafusion::error::Result<()> {
        let call = |py: Python<'_>| {
            let events = events::of_message(py, &message, time.as_ref())?;
            callback.call1(py, (PyList::new(py, events)?,)).map(|_| ())
        };
        attached(call)?.map_err(callback_failed)
    };
    let job = py.detach(|| run(&plan.stream, &options, Box::new(sink))).or_raise()?;
    NativeJob::start(job)
}

/// All events of the result, shard after shard.
#[pyfunction]
#[pyo3(signature = (plan, options, poll))]
pub fn collect_events(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Py<PyAny>>> {
    let shards = plan.stream.properties().shards;
    let kept: Arc<Vec<Kept>> = Arc::new((0..shards).map(|_| Kept::default()).collect());
    let keep = kept.clone();
    let sink = move |shard: usize, message: Message| {
        keep[shard].lock().unwrap_or_else(PoisonError::into_inner).push(message);
        Ok(())
    };
    let job = py.detach(|| run(&plan.stream, &options.events(), Box::new(sink))).or_raise()?;
    options.wait(py, &job, poll)?;
    let time = plan.stream.properties().time.as_ref();
    let mut all = Vec::new();
    for shard in kept.iter() {
        for message in shard.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            all.extend(events::of_message(py, message, time)?);
        }
    }
    Ok(all)
}

/// Tables of each shard, until there are so many rows of all shards; of a live source, of any.
#[pyfunction]
#[pyo3(signature = (plan, options, rows, poll))]
pub fn head(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    rows: Count,
    poll: Option<&Bound<'_, PyAny>>,
) -> PyResult<NativeTable> {
    let (rows, known) = (rows.0, plan.stream.properties());
    let schema = action::schema(&plan.stream, &options.options);
    let heads: Arc<Mutex<Vec<Head>>> = Arc::new(Mutex::new(vec![Head::default(); known.shards]));
    let (progress, bounded, kept) = (Arc::new(OnceLock::<Progress>::new()), known.bounded, heads.clone());
    let stop = progress.clone();
    let keep = move |shard: usize, batch: RecordBatch| {
        let mut heads = kept.lock().unwrap_or_else(PoisonError::into_inner);
        heads[shard].push(batch, rows);
        let enough = match bounded {
            true => heads.iter().all(|head| head.rows >= rows),
            false => heads.iter().map(|head| head.rows).sum::<usize>() >= rows,
        };
        if let (true, Some(progress)) = (enough, stop.get()) {
            progress.cancel();
        }
        Ok(())
    };
    let job = py.detach(|| action::subscribe(&plan.stream, &options.options, keep)).or_raise()?;
    // Were it not set, the query would only run longer.
    let _ = progress.set(job.progress().clone());
    options.wait(py, &job, poll)?;
    drop(job);
    let heads = std::mem::take(&mut *heads.lock().unwrap_or_else(PoisonError::into_inner));
    let batches = heads.into_iter().flat_map(|head| head.batches).collect();
    let table = NativeTable { schema, batches };
    if known.time.is_some() && known.shards > 1 { table.sorted_by_first() } else { Ok(table) }
}

/// The first rows of a shard.
#[derive(Default, Clone)]
struct Head {
    batches: Vec<RecordBatch>,
    rows: usize,
}

impl Head {
    fn push(&mut self, batch: RecordBatch, most: usize) {
        let taken = batch.num_rows().min(most.saturating_sub(self.rows));
        self.rows += taken;
        if taken > 0 {
            self.batches.push(batch.slice(0, taken));
        }
    }
}

fn with_late(options: Options, late: Option<Py<PyAny>>) -> Options {
    let Some(late) = late else { return options };
    let call: LateRows = Arc::new(move |batch| {
        // Who is leaving wants no late rows.
        let _ = attached(|py| {
            if let Err(error) = late.call1(py, (table(batch),)) {
                // The rows are a side output; the query goes on, and Python says what went wrong.
                error.write_unraisable(py, Some(late.bind(py)));
            }
        });
    });
    Options { late: Some(call), ..options }
}

fn table(batch: RecordBatch) -> NativeTable {
    NativeTable { schema: batch.schema(), batches: vec![batch] }
}

fn callback_failed(error: PyErr) -> DataFusionError {
    Raised::wrap("the function that was subscribed failed", error)
}
