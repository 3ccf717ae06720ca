//! The sources of plans: files, tables in memory, live feeds; and the ingress that gives rows their
//! lifetimes.

use arrow::compute::concat_batches;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use whimbrel_plan::names::unknown_column;
use whimbrel_plan::{Partitioning, Ranges, Source, Stream, TimeSpec, source_of};
use whimbrel_session::durable::wall_duration;
use whimbrel_sharded::dataset::{
    FileDataset, FileFormat, FollowDataset, LiveDataset, LiveSender, LiveTime, MemoryDataset, ReadOptions,
    ScaledDataset,
};
use whimbrel_temporal::{Disorder, IngressOptions, OnCompleted, Punctuate};

use crate::arguments::{Count, Length, deadline};
use crate::error::{OrRaise, PythonError, invalid, raise, unavailable};
use crate::plan::NativePlan;
use crate::shutdown::{self, InterpreterGuard, detach};
use crate::table::{NativeSchema, NativeTable};
use crate::{types, values};

/// The plan of a source.
///
/// # Errors
/// `InvalidError` if two of its columns have one name.
fn scan(name: &str, source: Arc<dyn Source>) -> PyResult<NativePlan> {
    Ok(NativePlan { stream: Stream::scan(name, source).or_raise()? })
}

/// A plan over files, by paths and patterns.
///
/// # Errors
/// `InvalidError` if an option is wrong; `DataError` if there is no such file, or one is broken.
#[pyfunction]
#[pyo3(signature = (paths, shards, format = None, header = None, delimiter = None, ranges = None, scale = None))]
#[expect(clippy::too_many_arguments, reason = "the options of one call, each with a name in Python")]
pub fn files(
    py: Python<'_>,
    paths: Vec<String>,
    shards: Option<Count>,
    format: Option<&str>,
    header: Option<bool>,
    delimiter: Option<&str>,
    ranges: Option<(String, Vec<i64>)>,
    scale: Option<f64>,
) -> PyResult<NativePlan> {
    let shards = shards.map(|count| count.0);
    let mut options = ReadOptions { shards, ..read_options(format, header, delimiter)? };
    if let Some((column, bounds)) = ranges {
        options.ranges = Some(Ranges::try_new(column, bounds).or_raise()?);
    }
    let dataset = detach(py, || FileDataset::open_as(&paths, &options)).or_raise()?;
    let dataset: Arc<dyn Source> = match scale {
        Some(scale) => Arc::new(ScaledDataset::try_new(Arc::new(dataset), scale).or_raise()?),
        None => Arc::new(dataset),
    };
    scan(stem(&paths), dataset)
}

/// A plan over files that come and grow, by paths and patterns.
///
/// # Errors
/// As [`files`].
#[pyfunction]
#[pyo3(signature = (paths, schema, format, header, delimiter))]
pub fn follow(
    py: Python<'_>,
    paths: Vec<String>,
    schema: Option<&NativeSchema>,
    format: Option<&str>,
    header: Option<bool>,
    delimiter: Option<&str>,
) -> PyResult<NativePlan> {
    let schema = schema.map(|schema| Arc::clone(&schema.0));
    let options = ReadOptions { schema, ..read_options(format, header, delimiter)? };
    let dataset = detach(py, || FollowDataset::open(&paths, &options)).or_raise()?;
    scan(stem(&paths), Arc::new(dataset))
}

/// The options of files.
fn read_options(
    format: Option<&str>,
    header: Option<bool>,
    delimiter: Option<&str>,
) -> PyResult<ReadOptions> {
    let mut options = ReadOptions { header, ..ReadOptions::default() };
    if let Some(name) = format {
        options.format = FileFormat::named(name);
        if options.format.is_none() {
            return Err(invalid(format!("format is one of parquet, csv, json, arrow, not \"{name}\"")));
        }
    }
    if let Some(delimiter) = delimiter {
        options.set("delimiter", delimiter).or_raise()?;
    }
    Ok(options)
}

/// The name of a plan over files: that of the first one.
fn stem(paths: &[String]) -> &str {
    let first = paths.first().map(String::as_str).unwrap_or_default();
    Path::new(first).file_stem().and_then(|stem| stem.to_str()).unwrap_or(first)
}

/// A plan over a table, cut into contiguous shards.
///
/// # Errors
/// `InvalidError` if there are no shards.
#[pyfunction]
pub fn memory(table: &NativeTable, shards: Count) -> PyResult<NativePlan> {
    let shards = shards.0;
    let dataset = MemoryDataset::new(table.schema.clone(), vec![table.batches.clone()]).or_raise()?;
    let dataset = if shards == 1 { dataset } else { dataset.with_shards(shards).or_raise()? };
    scan("memory", Arc::new(dataset))
}

/// A plan whose rows are part of it. Without a table, one row without columns.
///
/// # Errors
/// `InvalidError` if a value cannot be part of a plan.
#[pyfunction]
#[pyo3(signature = (table = None))]
pub fn literal_rows(table: Option<&NativeTable>) -> PyResult<NativePlan> {
    let Some(table) = table else {
        return Ok(NativePlan { stream: Stream::values(&[], vec![vec![]]).or_raise()? });
    };
    let fields = table.schema.fields().iter();
    let columns: Vec<_> = fields.map(|f| (f.name().clone(), f.data_type().clone())).collect();
    let mut rows = Vec::new();
    for batch in &table.batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row));
            rows.push(values.collect::<Result<Vec<_>, _>>().or_raise()?);
        }
    }
    Ok(NativePlan { stream: Stream::values(&columns, rows).or_raise()? })
}

/// A live source and its senders, one for each shard; with a folder, it keeps a log there.
///
/// # Errors
/// `InvalidError` if there are no shards, or too many, or the log has other columns; `DataError` if it
/// cannot be opened.
#[pyfunction]
#[pyo3(signature = (schema, shards, log = None, idle = None, arrival = None))]
pub fn live(
    py: Python<'_>,
    schema: &NativeSchema,
    shards: Count,
    log: Option<String>,
    idle: Option<(String, Length)>,
    arrival: Option<(String, Length)>,
) -> PyResult<(NativePlan, Vec<NativeSender>)> {
    let time = match (idle, arrival) {
        (Some((column, timeout)), _) => {
            Some(LiveTime::Idle { column, timeout: wall_duration(&timeout.0, "idle").or_raise()? })
        }
        (None, Some((column, latency))) => {
            Some(LiveTime::Arrival { column, latency: wall_duration(&latency.0, "latency").or_raise()? })
        }
        (None, None) => None,
    };
    let log = log.as_ref().map(Path::new);
    let opened = detach(py, || LiveDataset::open(schema.0.clone(), shards.0, log, time));
    let (dataset, senders) = opened.or_raise()?;
    Ok((scan("live", dataset)?, senders.into_iter().map(|sender| NativeSender { sender }).collect()))
}

/// Gives the rows of a plan their lifetimes.
///
/// # Errors
/// `InvalidError` if there is no such time column, or a setting is wrong.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the settings of one call, each with a name in Python")]
pub fn ingress(
    plan: &NativePlan,
    time: String,
    end: Option<String>,
    kind: Option<String>,
    disorder: &str,
    reorder_latency: Length,
    punctuate: Option<Length>,
    punctuate_rows: Option<Count>,
    on_completed: &str,
    batch_rows: Option<Count>,
    partition_by: Vec<String>,
    lag: Option<Length>,
    idle: Option<Length>,
) -> PyResult<NativePlan> {
    let schema = plan.stream.schema();
    let Ok(clock) = schema.field_with_name(&time) else {
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        return Err(raise(unknown_column(&time, &names)));
    };
    let latency = reorder_latency.0.ticks(clock.data_type(), "reorder_latency").or_raise()?;
    if latency < 0 {
        return Err(invalid("reorder_latency: a duration before now; give 0 or more"));
    }
    let options = IngressOptions {
        disorder: match disorder {
            "adjust" => Disorder::Adjust,
            "drop" => Disorder::Drop,
            _ => Disorder::Raise,
        },
        reorder_latency: latency,
        punctuate: match (punctuate, punctuate_rows.map(|count| count.0)) {
            (None, None) => Punctuate::Never,
            (Some(every), None) => {
                Punctuate::Every(every.0.positive_ticks(clock.data_type(), "punctuate").or_raise()?)
            }
            (None, Some(rows @ 1..)) => Punctuate::Rows(rows),
            (None, Some(_)) => return Err(invalid("punctuate_rows: give at least 1")),
            (Some(_), Some(_)) => return Err(invalid("give either punctuate= or punctuate_rows=")),
        },
        on_completed: match on_completed {
            "flush" => OnCompleted::Flush,
            "nothing" => OnCompleted::Nothing,
            _ => OnCompleted::EndOfStream,
        },
        batch_rows: match batch_rows.map(|count| count.0) {
            Some(0) => return Err(invalid("batch_rows: give at least 1")),
            Some(rows) => rows,
            None => IngressOptions::default().batch_rows,
        },
        idle: idle.map(|idle| wall_duration(&idle.0, "idle")).transpose().or_raise()?,
    };
    let lag = lag.map(|lag| lag.0.ticks(clock.data_type(), "lag")).transpose().or_raise()?;
    let time = TimeSpec { start: time, end, kind };
    NativePlan::wrap(match partition_by.is_empty() {
        true => plan.stream.ingress(time, options),
        false => plan.stream.ingress_by_partition(time, options, Partitioning { columns: partition_by, lag }),
    })
}

/// An identity for each live source of a plan.
///
/// # Errors
/// `InternalError` if the plan cannot be traversed.
#[pyfunction]
pub fn live_sources(plan: &NativePlan) -> PyResult<Vec<usize>> {
    let mut identities = Vec::new();
    visit_live(plan, |live| identities.push(std::ptr::from_ref(live) as usize))?;
    Ok(identities)
}

/// Whether the result of a plan is complete one day: all of its live sources were closed by a call.
///
/// # Errors
/// As [`live_sources`].
#[pyfunction]
pub fn will_end(plan: &NativePlan) -> PyResult<bool> {
    let mut finished = true;
    visit_live(plan, |live| finished &= live.is_finished())?;
    Ok(finished)
}

/// Calls a function with each live source of a plan.
///
/// # Errors
/// `InternalError` if the plan cannot be traversed.
fn visit_live(plan: &NativePlan, mut visit: impl FnMut(&LiveDataset)) -> PyResult<()> {
    let node = |node: &LogicalPlan| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = source_of(scan)
            && let Some(live) = (source.as_ref() as &dyn Any).downcast_ref::<LiveDataset>()
        {
            visit(live);
        }
        Ok(TreeNodeRecursion::Continue)
    };
    plan.stream.plan().apply(node).or_raise()?;
    Ok(())
}

/// The sending end of one shard of a live source.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Sender")]
pub struct NativeSender {
    /// The sender of whimbrel-sharded. Dropping it closes the shard.
    sender: LiveSender,
}

#[pymethods]
impl NativeSender {
    /// Sends rows, all or none. Waits while the queue is full, for so many seconds at most.
    #[pyo3(signature = (table, timeout))]
    fn push(&self, py: Python<'_>, table: &NativeTable, timeout: Option<f64>) -> PyResult<()> {
        if table.batches.iter().all(|b| b.num_rows() == 0) {
            return Ok(());
        }
        let rows = match table.batches.as_slice() {
            [one] => one.clone(),
            several => concat_batches(&table.schema, several).or_raise()?,
        };
        let until = deadline(timeout);
        let mut patience = || match until {
            Some(until) if Instant::now() >= until => Err(PythonError::pass(unavailable(format!(
                "the query is behind: there was no room for the rows within {} s, and none was sent; push them again \
                 later, or give a longer timeout",
                timeout.unwrap_or_default()
            )))),
            _ => check_signals(),
        };
        let _guard = InterpreterGuard::new().or_raise()?;
        detach(py, || self.sender.push_while(rows, &mut patience)).or_raise()
    }

    /// Promises that no row before a time follows. An integer is a number of ticks of the type of time
    /// `clock`.
    fn advance(&self, py: Python<'_>, time: &Bound<'_, PyAny>, clock: &str) -> PyResult<()> {
        let ticks: i64 = match time.is_instance_of::<PyInt>() {
            true => time
                .extract()
                .map_err(|_| invalid(format!("{} is after the end of time", values::show(time))))?,
            false => ticks(time, clock)?,
        };
        let _guard = InterpreterGuard::new().or_raise()?;
        detach(py, || self.sender.advance_while(ticks, &mut check_signals)).or_raise()
    }

    /// Promises that no row follows.
    fn close(&self) {
        self.sender.close();
    }
}

/// Handles signals, such as Ctrl-C, on a thread that has released the interpreter.
///
/// # Errors
/// What a handler raises; `Execution` if the interpreter is ending.
fn check_signals() -> datafusion::error::Result<()> {
    shutdown::check()?;
    Python::attach(|py| py.check_signals()).map_err(PythonError::pass)
}

/// An instant in ticks of a type of time.
fn ticks(time: &Bound<'_, PyAny>, clock: &str) -> PyResult<i64> {
    let clock = types::parse(clock).or_raise()?;
    let column = values::column("time", std::slice::from_ref(time), &clock)?;
    let ticks = arrow::compute::cast(&column, &arrow::datatypes::DataType::Int64).or_raise()?;
    Ok(arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(&ticks).value(0))
}
