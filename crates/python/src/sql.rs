//! Sessions of SQL, over the same files as those of the command.
//!
//! Invariant: whoever waits for the lock of a session or of parameters has released the interpreter. A thread
//! that plans holds the lock and attaches to the interpreter to look at signals: with both held in the other
//! order, both would wait.

use datafusion::error::DataFusionError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use whimbrel_session::{PlannedStatement, Session};
use whimbrel_sharded::Options;
use whimbrel_sharded::runtime::{PlanChoice, choices_text};
use whimbrel_sql::{Format, Parameters, Planned, Store, render};

use crate::arguments::Count;
use crate::error::{OrRaise, invalid, raise_with};
use crate::plan::NativePlan;
use crate::remote::Remote;
use crate::shutdown::detach;
use crate::table::NativeTable;
use crate::values;

/// A way to run a query: strategy, plan, rows, bytes moved, cost, whether it is chosen.
type NativeCandidate = (String, NativePlan, f64, f64, f64, bool);

/// A session: named tables, and statements one by one.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Session")]
pub struct NativeSession {
    session: Mutex<Session>,
}

impl NativeSession {
    /// Waits for the session, without the interpreter. A statement that panicked has left it as it was.
    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl NativeSession {
    /// A session without tables, whose files are read in so many shards. Its queries are planned for the
    /// cores of this process, or of where they run.
    #[new]
    #[pyo3(signature = (shards, remote = None))]
    fn new(py: Python<'_>, shards: Option<Count>, remote: Option<Remote<'_>>) -> NativeSession {
        let remote = remote.map(|remote| remote.runtime());
        let mut session = detach(py, || Session::new(Options { remote, ..Options::default() }));
        session.sql.set_shards(shards.map(|count| count.0));
        NativeSession { session: Mutex::new(session) }
    }

    /// Gives a plan a name.
    fn register(&self, py: Python<'_>, name: &str, plan: &NativePlan) -> PyResult<()> {
        let stream = plan.stream.clone();
        detach(py, || self.lock().sql.register(name, stream)).or_raise()
    }

    /// Plans one statement, with values for its places.
    #[pyo3(signature = (sql, values = None))]
    fn plan(&self, py: Python<'_>, sql: &str, values: Option<&NativeParameters>) -> PyResult<NativePlanned> {
        let planned = detach(py, || {
            with_signals(|stop| {
                let mut session = self.lock();
                let mut values = values.map(NativeParameters::lock);
                session.plan(sql, values.as_deref_mut(), stop)
            })
        })?;
        let PlannedStatement { planned, choices } = planned.map_err(|error| in_text(error, sql))?;
        Ok(NativePlanned { planned, choices })
    }

    /// All ways to run a query: strategy, plan, estimated rows, bytes moved and cost, and whether it is
    /// chosen.
    #[pyo3(signature = (sql, values = None))]
    fn candidates(
        &self,
        py: Python<'_>,
        sql: &str,
        values: Option<&NativeParameters>,
    ) -> PyResult<Vec<NativeCandidate>> {
        let candidates = detach(py, || {
            with_signals(|stop| {
                let mut session = self.lock();
                let mut values = values.map(NativeParameters::lock);
                session.candidates(sql, values.as_deref_mut(), stop)
            })
        })?;
        let candidates = candidates.map_err(|error| in_text(error, sql))?.into_iter();
        Ok(candidates
            .map(|way| {
                let plan = NativePlan { stream: way.stream };
                (way.strategy, plan, way.rows, way.bytes_moved, way.cost, way.chosen)
            })
            .collect())
    }

    /// Puts rows into a table in memory, as a statement says: a message, and the rows of its `returning`.
    fn store(
        &self,
        py: Python<'_>,
        planned: &NativePlanned,
        rows: &NativeTable,
    ) -> PyResult<(String, Option<NativeTable>)> {
        let Planned::Store { store, .. } = &planned.planned else {
            return Err(invalid("this statement stores nothing"));
        };
        let (store, schema, batches) = (Store::clone(store), rows.schema.clone(), rows.batches.clone());
        let stored = detach(py, || self.lock().sql.store(&store, schema, batches)).or_raise()?;
        let message = stored.summary();
        let returned = stored.returned.map(|rows| NativeTable { schema: rows.schema(), batches: vec![rows] });
        Ok((message, returned))
    }
}

/// Plans, and looks at signals meanwhile: an exception that a handler raises stops the planner.
///
/// # Errors
/// That exception.
fn with_signals<T>(plan: impl FnOnce(Box<dyn Fn() -> bool>) -> T) -> PyResult<T> {
    let raised: Arc<Mutex<Option<PyErr>>> = Arc::default();
    let in_handler = Arc::clone(&raised);
    let stop = move || {
        let error = Python::attach(|py| py.check_signals()).err();
        // The interpreter is released here: no thread waits for it and for this lock.
        let mut raised = in_handler.lock().unwrap_or_else(PoisonError::into_inner);
        *raised = raised.take().or(error);
        raised.is_some()
    };
    let planned = plan(Box::new(stop));
    match raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => Ok(planned),
    }
}

/// Values for the places of the statements of a script.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Parameters")]
pub struct NativeParameters {
    parameters: Mutex<Parameters>,
}

impl NativeParameters {
    /// Waits for the values, without the interpreter. A statement that panicked has ended its script.
    fn lock(&self) -> MutexGuard<'_, Parameters> {
        self.parameters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl NativeParameters {
    /// Values by place and by name.
    #[new]
    fn new(
        by_place: Vec<Bound<'_, PyAny>>,
        by_name: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<NativeParameters> {
        let value = |object: &Bound<'_, PyAny>| values::literal(object, None);
        let by_place = by_place.iter().map(value).collect::<PyResult<Vec<_>>>()?;
        let by_name = by_name.iter().map(|(name, object)| Ok((name.clone(), value(object)?)));
        let parameters = Parameters::new(&by_place, &by_name.collect::<PyResult<Vec<_>>>()?).or_raise()?;
        Ok(NativeParameters { parameters: Mutex::new(parameters) })
    }

    /// The same values, for the statement that is read next.
    fn copy(&self, py: Python<'_>) -> NativeParameters {
        NativeParameters { parameters: Mutex::new(detach(py, || self.lock().clone())) }
    }

    /// Fails if there is a value without a place.
    fn all_read(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || self.lock().all_read()).or_raise()
    }
}

/// A planned statement.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Planned")]
pub struct NativePlanned {
    planned: Planned,
    choices: Vec<PlanChoice>,
}

/// A plan that was compared with others: shards, seconds, dollars, gigabyte-seconds, tasks, whether it is
/// chosen.
type NativeChoice = (usize, f64, f64, f64, Vec<usize>, bool);

#[pymethods]
impl NativePlanned {
    /// `query`, `explain`, `analyze`, `copy`, `store`, `table` or `done`.
    fn kind(&self) -> &'static str {
        match &self.planned {
            Planned::Query(_) => "query",
            Planned::Explain { analyze: false, .. } => "explain",
            Planned::Explain { analyze: true, .. } => "analyze",
            Planned::Copy { .. } => "copy",
            Planned::Store { .. } => "store",
            Planned::Table(_) => "table",
            Planned::Done(_) => "done",
        }
    }

    /// The plan to run, if there is one.
    fn plan(&self) -> Option<NativePlan> {
        self.planned.stream().map(|stream| NativePlan { stream: stream.clone() })
    }

    /// The plans that were compared where the query runs.
    fn choices(&self) -> Vec<NativeChoice> {
        let tuple = |choice: &PlanChoice| {
            let PlanChoice { shards, tasks, seconds, dollars, gb_seconds, chosen } = choice.clone();
            (shards, seconds, dollars, gb_seconds, tasks, chosen)
        };
        self.choices.iter().map(tuple).collect()
    }

    /// These plans as text, a line each.
    fn choices_text(&self) -> String {
        choices_text(&self.choices)
    }

    /// The answer, if it needs no query.
    fn table(&self) -> Option<NativeTable> {
        match &self.planned {
            Planned::Table(rows) => Some(NativeTable { schema: rows.schema(), batches: vec![rows.clone()] }),
            _ => None,
        }
    }

    /// The message of a statement without rows.
    fn done(&self) -> Option<&str> {
        match &self.planned {
            Planned::Done(text) => Some(text),
            _ => None,
        }
    }

    /// The file and the format of a copy.
    fn target(&self) -> Option<(&str, &'static str)> {
        match &self.planned {
            Planned::Copy { to, format, .. } => Some((to, Format::name(*format))),
            _ => None,
        }
    }
}

/// The statements of a script.
///
/// # Errors
/// `InvalidError` if a string or a comment does not end.
#[pyfunction]
pub fn statements(script: &str) -> PyResult<Vec<String>> {
    let split = whimbrel_sql::Session::split(script).map_err(|error| in_text(error, script))?;
    Ok(split.into_iter().map(|statement| statement.text.to_string()).collect())
}

/// The exception for an error in a statement, with its place in the text.
pub fn in_text(error: DataFusionError, sql: &str) -> PyErr {
    let message = render(&error, sql);
    raise_with(error, message)
}
