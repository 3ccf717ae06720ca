//! Errors, bounds and refusals as Python sees them.
//!
//! A refusal is an `UnboundedError` with the reason, a drawing of the plan, and the fixes.

use pyo3::prelude::*;
use whimbrel_bounded::{self as bounded, Bytes, Error, Refusal};

use crate::error::of_class;

/// The exception for an error, with its place in the text if it has one.
pub fn raise(error: Error, sql: &str) -> PyErr {
    match error {
        Error::Invalid(error) => of_class("InvalidError", (whimbrel_sql::render(&error, sql),)),
        Error::Data(text) => of_class("DataError", (text,)),
        Error::Unavailable(text) => of_class("UnavailableError", (text,)),
        Error::Conflict(text) => of_class("ConflictError", (text,)),
        Error::Internal(text) => {
            of_class("InternalError", (format!("{text}. This is a bug in Whimbrel: please report it"),))
        }
        Error::Unbounded(refusal) => unbounded_error(&refusal),
    }
}

/// The exception for a query without a bound.
fn unbounded_error(refusal: &Refusal) -> PyErr {
    let fixes: Vec<Fix> = refusal.fixes.iter().map(Fix::from).collect();
    let (reason, drawing) = (refusal.reason.clone(), refusal.drawing.clone());
    of_class("UnboundedError", (refusal.to_string(), reason, drawing, fixes))
}

/// The most that a call of a query can cost, whatever is in the store. A number is `None` if it has no bound:
/// the query was allowed to be unbounded.
#[pyclass(frozen, eq, module = "whimbrel.bounded")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// Requests to the store.
    #[pyo3(get)]
    requests: Option<u64>,
    /// Rounds of requests, one after the other: they determine the latency.
    #[pyo3(get)]
    rounds: u64,
    /// Keys and values that are returned.
    #[pyo3(get)]
    tuples: Option<u64>,
    /// Their bytes; `None` also if a column has no maximal length.
    #[pyo3(get)]
    bytes: Option<u64>,
    /// Rows that the call returns.
    #[pyo3(get)]
    rows: Option<u64>,
    /// The text that the command prints.
    text: String,
}

impl From<&bounded::Bound> for Bound {
    fn from(bound: &bounded::Bound) -> Bound {
        let finite = |number: u64| (number != u64::MAX).then_some(number);
        Bound {
            requests: finite(bound.requests),
            rounds: bound.rounds,
            tuples: finite(bound.tuples),
            bytes: match bound.bytes {
                Bytes::AtMost(bytes) => finite(bytes),
                Bytes::NoLength(_) => None,
            },
            rows: finite(bound.rows),
            text: bound.to_string(),
        }
    }
}

#[pymethods]
impl Bound {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        let shown = |number: Option<u64>| number.map_or("None".to_string(), |number| number.to_string());
        format!(
            "Bound(requests={}, rounds={}, tuples={}, bytes={}, rows={})",
            shown(self.requests),
            self.rounds,
            shown(self.tuples),
            shown(self.bytes),
            shown(self.rows)
        )
    }
}

/// A change that gives a query a bound. It was compiled, with that bound as the result.
#[pyclass(frozen, eq, get_all, module = "whimbrel.bounded")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// What the change does.
    title: String,
    /// The statements or the query to write.
    paste: String,
    /// Whether the schema changes, and not the query.
    changes_schema: bool,
    /// The bound of the query after the change.
    bound: Bound,
}

impl From<&bounded::Fix> for Fix {
    fn from(fix: &bounded::Fix) -> Fix {
        Fix {
            title: fix.title.clone(),
            paste: fix.paste.clone(),
            changes_schema: fix.changes_schema,
            bound: Bound::from(&fix.bound),
        }
    }
}

#[pymethods]
impl Fix {
    fn __repr__(&self) -> String {
        format!("Fix(title={:?}, paste={:?}, bound={})", self.title, self.paste, self.bound.__repr__())
    }
}
