//! SQL sessions, over the same files as the command's.

use datafusion::error::DataFusionError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use whimbrel_cli::files::Datasets;
use whimbrel_plan::interruptible;
use whimbrel_sharded::RuntimeKind;
use whimbrel_sql::{Format, Parameters, Planned, Session, Store, render};

use crate::counts::Count;
use crate::error::{OrRaise, raise_with};
use crate::plan::NativePlan;
use crate::table::NativeTable;
use crate::values;

/// A way to run a query: strategy, plan, rows, bytes moved, cost, whether it is chosen.
type NativeCandidate = (String, NativePlan, f64, f64, f64, bool);

/// A session: names, and statements one by one.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Session")]
pub struct NativeSession {
    session: Mutex<Session>,
}

impl NativeSession {
    /// A statement that fails leaves the session as it was.
    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl NativeSession {
    #[new]
    fn new(shards: Option<Count>) -> NativeSession {
        let mut session = Session::new(Arc::new(Datasets::default()));
        session.set_shards(shards.map(|count| count.0));
        session.set_cores(RuntimeKind::Local.cores());
        NativeSession { session: Mutex::new(session) }
    }

    /// Gives a plan a name.
    fn register(&self, name: &str, plan: &NativePlan) -> PyResult<()> {
        self.lock().register(name, plan.stream.clone()).or_raise()
    }

    /// Plans one statement, with values for its places.
    #[pyo3(signature = (sql, values = None))]
    fn plan(&self, py: Python<'_>, sql: &str, values: Option<&NativeParameters>) -> PyResult<NativePlanned> {
        let planned = py.detach(|| {
            heard(|| match values {
                Some(values) => self.lock().plan_with(sql, &mut values.lock()),
                None => self.lock().plan(sql),
            })
        })?;
        Ok(NativePlanned { planned: planned.map_err(|error| in_text(error, sql))? })
    }

    /// All ways to run a query: what each does, its plan, how many rows it is expected to give, how many bytes to
    /// move, what to cost, and whether it is the one that is run.
    #[pyo3(signature = (sql, values = None))]
    fn candidates(
        &self,
        py: Python<'_>,
        sql: &str,
        values: Option<&NativeParameters>,
    ) -> PyResult<Vec<NativeCandidate>> {
        let found = py.detach(|| {
            heard(|| match values {
                Some(values) => self.lock().candidates_with(sql, &mut values.lock()),
                None => self.lock().candidates(sql),
            })
        })?;
        Ok(found
            .map_err(|error| in_text(error, sql))?
            .into_iter()
            .map(|way| {
                let plan = NativePlan { stream: way.stream };
                (way.strategy, plan, way.rows, way.bytes_moved, way.cost, way.chosen)
            })
            .collect())
    }

    /// Gives a table in memory the rows of a statement that stores: what was done, and what `returning` asked for.
    fn store(&self, planned: &NativePlanned, rows: &NativeTable) -> PyResult<(String, Option<NativeTable>)> {
        let Planned::Store { store, .. } = &planned.planned else {
            return Err(crate::error::invalid("this statement stores nothing"));
        };
        let store: Store = Store::clone(store);
        let stored = self.lock().store(&store, rows.schema.clone(), rows.batches.clone()).or_raise()?;
        let done = stored.done();
        let returned = stored.returned.map(|rows| NativeTable { schema: rows.schema(), batches: vec![rows] });
        Ok((done, returned))
    }
}

/// Plans, and listens for Ctrl-C meanwhile: then nothing comes of the plan but what Python raises.
fn heard<T>(plan: impl FnOnce() -> T) -> PyResult<T> {
    let raised: Arc<Mutex<Option<PyErr>>> = Arc::default();
    let hears = Arc::clone(&raised);
    let ask = move || {
        let error = Python::attach(|py| py.check_signals()).err();
        let mut heard = hears.lock().unwrap_or_else(PoisonError::into_inner);
        *heard = heard.take().or(error);
        heard.is_some()
    };
    let planned = interruptible(ask, plan);
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
    /// A statement that fails ends the script.
    fn lock(&self) -> MutexGuard<'_, Parameters> {
        self.parameters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl NativeParameters {
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
    fn copy(&self) -> NativeParameters {
        NativeParameters { parameters: Mutex::new(self.lock().clone()) }
    }

    /// Fails if there is a value without a place.
    fn all_read(&self) -> PyResult<()> {
        self.lock().all_read().or_raise()
    }
}

/// What is to be done about a statement.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Planned")]
pub struct NativePlanned {
    planned: Planned,
}

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
        match &self.planned {
            Planned::Query(stream)
            | Planned::Explain { stream, .. }
            | Planned::Copy { stream, .. }
            | Planned::Store { stream, .. } => Some(NativePlan { stream: stream.clone() }),
            Planned::Table(_) | Planned::Done(_) => None,
        }
    }

    /// The answer that is known already.
    fn table(&self) -> Option<NativeTable> {
        match &self.planned {
            Planned::Table(rows) => Some(NativeTable { schema: rows.schema(), batches: vec![rows.clone()] }),
            _ => None,
        }
    }

    /// What was done, if nothing comes out.
    fn done(&self) -> Option<&str> {
        match &self.planned {
            Planned::Done(text) => Some(text),
            _ => None,
        }
    }

    /// Where to, and as what, a copy is written.
    fn target(&self) -> Option<(&str, &'static str)> {
        match &self.planned {
            Planned::Copy { to, format, .. } => Some((to, Format::name(*format))),
            _ => None,
        }
    }
}

/// The statements of a script.
#[pyfunction]
pub fn statements(script: &str) -> PyResult<Vec<String>> {
    let split = Session::split(script).map_err(|error| in_text(error, script))?;
    Ok(split.into_iter().map(|statement| statement.text.to_string()).collect())
}

/// The exception for an error in a statement, with the place in the text.
pub fn in_text(error: DataFusionError, sql: &str) -> PyErr {
    let message = render(&error, sql);
    raise_with(error, message)
}
