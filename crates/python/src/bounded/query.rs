//! A statement that is ready.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use whimbrel_bounded::{Database, Prepared};

use super::page::{self, BoundedPage};
use super::prediction::{self, Prediction};
use super::refusal::Bound as QueryBound;

/// A statement that is ready to be called.
#[pyclass(frozen, module = "whimbrel._whimbrel")]
pub struct BoundedQuery {
    pub(super) database: Database,
    pub(super) prepared: Prepared,
    pub(super) sql: String,
}

#[pymethods]
impl BoundedQuery {
    /// Calls it; the page behind a cursor if there is one.
    #[pyo3(signature = (values, named, cursor))]
    fn call(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyTuple>,
        named: &Bound<'_, PyDict>,
        cursor: Option<&str>,
    ) -> PyResult<BoundedPage> {
        page::called(py, &self.prepared, &self.sql, values, named, cursor)
    }

    /// The most that a call can cost.
    fn bound(&self) -> QueryBound {
        QueryBound::from(&self.prepared.plan().bound)
    }

    /// The plan and its bound.
    fn explain(&self) -> String {
        self.prepared.plan().to_string()
    }

    /// Whether a promise holds, by what was measured of the store.
    fn predict(&self, py: Python<'_>, slo: &str) -> PyResult<Prediction> {
        prediction::predicted(py, &self.database, &self.prepared, &self.sql, slo)
    }

    /// The names of the parameters; none for those without.
    fn parameters(&self) -> Vec<Option<String>> {
        self.prepared.parameters().into_iter().map(|parameter| parameter.name).collect()
    }
}
