//! A prepared statement. It keeps its text, to show the place of an error in it.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use whimbrel_bounded::{Database, Prepared};

use super::page::{self, BoundedPage};
use super::prediction::{self, Prediction};
use super::refusal::Bound as QueryBound;

/// A prepared statement.
#[pyclass(frozen, module = "whimbrel._whimbrel")]
pub struct BoundedQuery {
    /// The database, whose model of the store predictions use.
    pub(super) database: Database,
    pub(super) prepared: Prepared,
    /// The text of the statement.
    pub(super) sql: String,
}

#[pymethods]
impl BoundedQuery {
    /// Calls the statement. With a cursor, returns its page.
    #[pyo3(signature = (values, named, cursor))]
    fn call(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyTuple>,
        named: &Bound<'_, PyDict>,
        cursor: Option<&str>,
    ) -> PyResult<BoundedPage> {
        page::call(py, &self.prepared, &self.sql, values, named, cursor)
    }

    /// The bound of a call.
    fn bound(&self) -> QueryBound {
        QueryBound::from(&self.prepared.plan().bound)
    }

    /// The plan and its bound.
    fn explain(&self) -> String {
        self.prepared.plan().to_string()
    }

    /// Predicts whether the query meets an objective.
    fn predict(&self, py: Python<'_>, slo: &str) -> PyResult<Prediction> {
        prediction::predict(py, &self.database, &self.prepared, &self.sql, slo)
    }

    /// The names of the parameters. A parameter by place has none.
    fn parameters(&self) -> Vec<Option<String>> {
        self.prepared.parameters().into_iter().map(|parameter| parameter.name).collect()
    }
}
