//! SQL sessions, over the same files as the command's.

use datafusion::error::DataFusionError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use whimbrel_cli::files::Datasets;
use whimbrel_sharded::RuntimeKind;
use whimbrel_sql::{Format, Planned, Session, Store, render};

use crate::error::{OrRaise, raise_with};
use crate::plan::NativePlan;
use crate::table::NativeTable;

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
    fn new(shards: Option<usize>) -> NativeSession {
        let mut session = Session::new(Arc::new(Datasets::default()));
        session.set_shards(shards);
        session.set_cores(RuntimeKind::Local.cores());
        NativeSession { session: Mutex::new(session) }
    }

    /// Gives a plan a name.
    fn register(&self, name: &str, plan: &NativePlan) -> PyResult<()> {
        self.lock().register(name, plan.stream.clone()).or_raise()
    }

    /// Plans one statement.
    fn plan(&self, py: Python<'_>, sql: &str) -> PyResult<NativePlanned> {
        let planned = py.detach(|| self.lock().plan(sql)).map_err(|error| in_text(error, sql))?;
        Ok(NativePlanned { planned })
    }

    /// All ways to run a query: what each does, its plan, how many rows it is expected to give, how many bytes to
    /// move, what to cost, and whether it is the one that is run.
    fn candidates(&self, py: Python<'_>, sql: &str) -> PyResult<Vec<NativeCandidate>> {
        let found = py.detach(|| self.lock().candidates(sql)).map_err(|error| in_text(error, sql))?;
        Ok(found
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
