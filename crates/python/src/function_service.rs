//! Functions: a service of one's own, and where queries run on functions.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use whimbrel_functions::{
    Attempt, Bill, BucketAddress, Finished, Forecast, FunctionAddress, FunctionService, Functions,
    FunctionsSettings, Goal, PoolBill, PriceSheet, Rates, ServiceOptions, Stragglers, forecast_text,
};
use whimbrel_session::durable::wall_duration;
use whimbrel_session::functions::connect;
use whimbrel_sharded::Options;
use whimbrel_sharded::runtime::RemoteRuntime;

use crate::arguments::{Count, Length};
use crate::error::{OrRaise, invalid};
use crate::plan::NativePlan;
use crate::shutdown::detach;

/// A function service on this machine.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "FunctionService")]
pub struct NativeFunctionService {
    address: SocketAddr,
    service: Mutex<Option<FunctionService>>,
    /// The process that started it.
    process: u32,
}

#[pymethods]
impl NativeFunctionService {
    /// Starts a service whose functions run a command.
    #[new]
    fn new(
        py: Python<'_>,
        command: Vec<String>,
        concurrency: Count,
        memory: u32,
        timeout: Length,
        listen: &str,
    ) -> PyResult<NativeFunctionService> {
        let Ok(listen) = listen.parse() else {
            return Err(invalid(format!("a service listens on an address and a port, not on \"{listen}\"")));
        };
        let timeout = wall_duration(&timeout.0, "timeout").or_raise()?;
        let options = ServiceOptions {
            command,
            name: "whimbrel".to_string(),
            concurrency: concurrency.0,
            memory,
            timeout,
            listen,
        };
        let service = detach(py, || FunctionService::start(options)).or_raise()?;
        let address = service.address();
        Ok(NativeFunctionService { address, service: Mutex::new(Some(service)), process: std::process::id() })
    }

    /// Where it is invoked.
    fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The processes of its functions.
    fn processes(&self) -> Vec<u32> {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        service.as_ref().map(FunctionService::processes).unwrap_or_default()
    }

    /// Ends it, and its functions. In a forked process it does nothing: they are those of the parent.
    fn stop(&self, py: Python<'_>) {
        detach(py, || self.end());
    }
}

impl NativeFunctionService {
    fn end(&self) {
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        match self.process == std::process::id() {
            true => drop(service),
            false => std::mem::forget(service),
        }
    }
}

impl Drop for NativeFunctionService {
    fn drop(&mut self) {
        self.end();
    }
}

/// Functions, as a client sees them.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Functions")]
pub struct NativeFunctions {
    /// The runtime of queries.
    pub functions: Functions,
}

#[pymethods]
impl NativeFunctions {
    /// Functions that are there.
    #[new]
    #[pyo3(signature = (
        *, function, endpoints, bucket, s3, concurrency, memory, timeout, prices, hedge, inline, keep, small,
        pipelined, combine, parallel_reads, rates
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
    fn new(
        py: Python<'_>,
        function: String,
        endpoints: Vec<String>,
        bucket: String,
        s3: Option<String>,
        concurrency: Count,
        memory: u32,
        timeout: Length,
        prices: &str,
        hedge: &str,
        inline: bool,
        keep: Option<Length>,
        small: u64,
        pipelined: bool,
        combine: Option<bool>,
        parallel_reads: Count,
        rates: Option<RatesTuple>,
    ) -> PyResult<NativeFunctions> {
        let function = FunctionAddress { name: function, endpoints };
        let bucket = BucketAddress { url: bucket, endpoint: s3 };
        let mut settings = FunctionsSettings::new(function, bucket).or_raise()?;
        settings.timeout = wall_duration(&timeout.0, "timeout").or_raise()?;
        settings.prices = match prices.trim_start().starts_with('{') {
            true => PriceSheet::parse(prices).or_raise()?,
            false => PriceSheet::named(prices).or_raise()?,
        };
        settings.job.schedule.concurrency = concurrency.0;
        settings.job.schedule.pipelined = pipelined;
        settings.memory = memory;
        settings.job.keep = keep.map(|keep| wall_duration(&keep.0, "keep").or_raise()).transpose()?;
        settings.small = small;
        settings.rates = rates.map(rates_of);
        settings.combine = combine;
        settings.job.parallel_reads = u32::try_from(parallel_reads.0).unwrap_or(u32::MAX);
        settings.stragglers = match hedge {
            "all" => Stragglers::default(),
            "reads" => Stragglers::default().without_writes(),
            "writes" => Stragglers::default().without_reads(),
            _ => Stragglers::ignored(),
        };
        if hedge == "none" {
            settings.job.schedule.duplicate_after = f64::INFINITY;
        }
        if !inline {
            settings.job.inline_bytes = 0;
        }
        Ok(NativeFunctions { functions: detach(py, || connect(settings)).or_raise()? })
    }

    /// The same functions for one query, with a bill of its own.
    fn for_query(&self) -> NativeFunctions {
        NativeFunctions { functions: self.functions.for_query() }
    }

    /// These functions behind a base pool, whose places work waits for so long.
    fn with_base(&self, base: &NativeFunctions, wait: Option<Length>) -> PyResult<NativeFunctions> {
        let wait = wait.map(|wait| wall_duration(&wait.0, "wait").or_raise()).transpose()?;
        Ok(NativeFunctions { functions: self.functions.with_base(&base.functions, wait).or_raise()? })
    }

    /// These functions, or those of others that serve a query better.
    fn with_sizes(&self, others: Vec<PyRef<'_, NativeFunctions>>) -> PyResult<NativeFunctions> {
        let others: Vec<Functions> = others.iter().map(|other| other.functions.clone()).collect();
        Ok(NativeFunctions { functions: self.functions.with_sizes(&others).or_raise()? })
    }

    /// How many channels of a query run at the same time.
    fn cores(&self) -> usize {
        self.functions.cores()
    }

    /// How fast they are thought to be.
    fn rates(&self) -> RatesTuple {
        let Rates { invocation, latency, transfer, compute, rows, processors, cold_start, reads, writes } =
            self.functions.rates();
        let finite = |rate: f64| Some(rate).filter(|rate| rate.is_finite());
        let limits = (finite(processors), cold_start, finite(reads), finite(writes));
        ((invocation, latency, transfer, compute, rows), limits)
    }

    /// The bill of the query that these functions are for.
    fn bill<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.functions.bill().map(|bill| bill_dict(py, &bill)).transpose()
    }

    /// The bill of the last query of all.
    fn last_bill<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.functions.last_bill().map(|bill| bill_dict(py, &bill)).transpose()
    }

    /// How far the query is that was started last.
    fn progress(&self) -> Vec<(usize, usize, usize)> {
        self.functions.progress()
    }

    /// The same functions with another goal for the plans of queries.
    fn with_goal(&self, goal: &NativeFunctionGoal) -> NativeFunctions {
        NativeFunctions { functions: self.functions.with_goal(goal.goal) }
    }

    /// What a plan is expected to take and to cost.
    fn explain<'py>(&self, py: Python<'py>, plan: &NativePlan) -> PyResult<Bound<'py, PyDict>> {
        let explain = || self.functions.explain(&plan.stream, &Options::default());
        let forecast = detach(py, explain).or_raise()?;
        forecast_dict(py, &forecast)
    }

    /// Copies a file to the bucket; where it is then.
    fn upload(&self, py: Python<'_>, path: PathBuf) -> PyResult<String> {
        detach(py, || self.functions.upload(&path)).or_raise()
    }

    /// Removes what is older than this.
    fn sweep(&self, py: Python<'_>, age: Length) -> PyResult<(usize, u64)> {
        let age = wall_duration(&age.0, "older_than").or_raise()?;
        detach(py, || self.functions.sweep(age)).or_raise()
    }
}

/// What is wanted of the number of tasks of a query.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "FunctionGoal")]
pub struct NativeFunctionGoal {
    goal: Goal,
}

#[pymethods]
impl NativeFunctionGoal {
    /// A goal: `knee`, `max_cost` with dollars, or `max_latency` with a duration.
    #[new]
    fn new(kind: &str, value: Option<Bound<'_, PyAny>>) -> PyResult<NativeFunctionGoal> {
        let goal = match (kind, value) {
            ("max_cost", Some(dollars)) => {
                let dollars: f64 = dollars.extract()?;
                if !(dollars.is_finite() && dollars >= 0.0) {
                    return Err(invalid(format!("max_cost is a number of dollars, not {dollars}")));
                }
                Goal::MaxCost(dollars)
            }
            ("max_latency", Some(length)) => {
                let length: Length = length.extract()?;
                Goal::MaxLatency(wall_duration(&length.0, "max_latency").or_raise()?)
            }
            _ => Goal::Knee,
        };
        Ok(NativeFunctionGoal { goal })
    }
}

/// How fast functions are, as Python's half has it: the rates of one, and what all share.
type RatesTuple = ((f64, f64, f64, f64, f64), (Option<f64>, f64, Option<f64>, Option<f64>));

fn rates_of(((invocation, latency, transfer, compute, rows), limits): RatesTuple) -> Rates {
    let (processors, cold_start, reads, writes) = limits;
    let [processors, reads, writes] = [processors, reads, writes].map(|rate| rate.unwrap_or(f64::INFINITY));
    Rates { invocation, latency, transfer, compute, rows, processors, cold_start, reads, writes }
}

/// An attempt, as Python's half has it.
type AttemptTuple = (usize, usize, &'static str, f64, f64, &'static str, &'static str);

/// The part of a pool, as Python's half has it.
type PoolTuple = (&'static str, String, u64, f64, f64, f64);

/// A bill, as Python's half takes it.
///
/// # Errors
/// Those of the interpreter.
pub fn bill_dict<'py>(py: Python<'py>, bill: &Bill) -> PyResult<Bound<'py, PyDict>> {
    let Finished { usage, formula, attempts, .. } = &bill.finished;
    let dict = PyDict::new(py);
    let kinds = ["compute", "invocation", "get", "put", "storage"];
    for (kind, dollars) in kinds.into_iter().zip(bill.dollars_by_kind()) {
        dict.set_item(format!("{kind}_dollars"), dollars)?;
    }
    dict.set_item("dollars", bill.dollars())?;
    dict.set_item("text", bill.to_string())?;
    dict.set_item("gets", usage.gets)?;
    dict.set_item("puts", usage.puts)?;
    dict.set_item("table_gets", usage.table_gets)?;
    dict.set_item("invocations", usage.invocations)?;
    dict.set_item("gb_seconds", usage.gb_seconds)?;
    dict.set_item("seconds", bill.elapsed.as_secs_f64())?;
    dict.set_item("read_bytes", usage.read_bytes)?;
    dict.set_item("written_bytes", usage.written_bytes)?;
    dict.set_item("hedged", usage.hedged)?;
    dict.set_item("failures", bill.finished.failures)?;
    dict.set_item("duplicates", bill.finished.duplicates)?;
    dict.set_item("formula", (formula.gets, formula.puts))?;
    dict.set_item("prices", &bill.prices.sheet.name)?;
    dict.set_item("ran", if bill.finished.ran_here { "coordinator" } else { "functions" })?;
    dict.set_item("tasks", bill.finished.tasks)?;
    dict.set_item("kept", bill.finished.kept)?;
    let attempt = |attempt: &Attempt| -> AttemptTuple {
        let (start, end) = (attempt.start.as_secs_f64(), attempt.end.as_secs_f64());
        let (outcome, pool) = (attempt.outcome.name(), attempt.pool.name());
        (attempt.stage, attempt.task, attempt.kind.name(), start, end, outcome, pool)
    };
    let pool = |PoolBill { pool, prices, usage, dollars, alone }: PoolBill| -> PoolTuple {
        (pool.name(), prices.name, usage.invocations, usage.gb_seconds, dollars, alone)
    };
    dict.set_item("pools", bill.pools().into_iter().map(pool).collect::<Vec<_>>())?;
    dict.set_item("attempts", attempts.iter().map(attempt).collect::<Vec<_>>())?;
    Ok(dict)
}

fn forecast_dict<'py>(py: Python<'py>, forecast: &Forecast) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let stages = forecast.stages.iter().map(|stage| {
        let one = PyDict::new(py);
        let [source_bytes, input_bytes, output_bytes] = stage.bytes;
        one.set_item("tasks", stage.tasks)?;
        one.set_item("combines", stage.combines)?;
        one.set_item("source_bytes", source_bytes)?;
        one.set_item("input_bytes", input_bytes)?;
        one.set_item("output_bytes", output_bytes)?;
        one.set_item("objects", stage.objects)?;
        one.set_item("gets", stage.usage.gets)?;
        one.set_item("puts", stage.usage.puts)?;
        one.set_item("gb_seconds", stage.usage.gb_seconds)?;
        one.set_item("task_seconds", stage.task_seconds)?;
        one.set_item("start", stage.span.0)?;
        one.set_item("end", stage.span.1)?;
        Ok(one)
    });
    dict.set_item("stages", stages.collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("text", forecast_text(forecast, None))?;
    dict.set_item("runs_here", forecast.runs_here)?;
    dict.set_item("seconds", forecast.seconds)?;
    dict.set_item("dollars", forecast.dollars)?;
    dict.set_item("invocations", forecast.usage.invocations)?;
    dict.set_item("gets", forecast.usage.gets)?;
    dict.set_item("puts", forecast.usage.puts)?;
    dict.set_item("gb_seconds", forecast.usage.gb_seconds)?;
    dict.set_item("memory", forecast.memory)?;
    let alone = forecast.alone.iter().map(|(pool, seconds, dollars)| (pool.name(), *seconds, *dollars));
    dict.set_item("alone", alone.collect::<Vec<_>>())?;
    Ok(dict)
}
