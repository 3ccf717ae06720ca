//! The rows of a call.
//!
//! A page is one batch. A write has a page too: its only row is the number of rows that were written.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use whimbrel_bounded::{Cursor, Page, Prepared};

use super::arguments;
use super::call::call_detached;
use super::refusal::raise;
use crate::table::NativeTable;
use crate::values;

/// The rows of a call, and where the next page begins.
#[pyclass(frozen, module = "whimbrel._whimbrel")]
pub struct BoundedPage {
    page: Page,
    /// Whether the call was a write, whose only row is its count.
    is_write: bool,
}

/// The page of a read.
impl From<Page> for BoundedPage {
    fn from(page: Page) -> BoundedPage {
        BoundedPage { page, is_write: false }
    }
}

#[pymethods]
impl BoundedPage {
    /// How many rows were written, if it was a write.
    fn written(&self) -> Option<i64> {
        self.is_write.then(|| self.page.batch.column(0).as_primitive::<Int64Type>().value(0))
    }

    /// The names of the columns.
    fn names(&self) -> Vec<String> {
        self.page.batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The rows, each a tuple of its values.
    fn tuples<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let columns = self.page.batch.columns();
        let row = |at: usize| {
            let cells = columns.iter().map(|column| values::cell(py, column.as_ref(), at));
            PyTuple::new(py, cells.collect::<PyResult<Vec<_>>>()?)
        };
        (0..self.page.batch.num_rows()).map(row).collect()
    }

    /// The rows as a table.
    fn table(&self) -> NativeTable {
        let batch = &self.page.batch;
        NativeTable { schema: batch.schema(), batches: vec![batch.clone()] }
    }

    /// The cursor of the next page, if there is one.
    fn cursor(&self) -> Option<String> {
        self.page.cursor.as_ref().map(ToString::to_string)
    }

    /// The operations on the store.
    fn spent(&self) -> Operations {
        let spent = self.page.spent;
        Operations {
            requests: spent.requests,
            rounds: spent.rounds,
            tuples: spent.tuples,
            bytes: spent.bytes,
            writes: spent.writes,
        }
    }
}

/// The operations of a call on the store.
#[pyclass(frozen, eq, get_all, module = "whimbrel.bounded")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operations {
    /// Read requests.
    requests: u64,
    /// Rounds of requests, one after the other.
    rounds: u64,
    /// Keys and values that were returned.
    tuples: u64,
    /// Their bytes.
    bytes: u64,
    /// Keys that were written.
    writes: u64,
}

#[pymethods]
impl Operations {
    fn __repr__(&self) -> String {
        format!(
            "Operations(requests={}, rounds={}, tuples={}, bytes={}, writes={})",
            self.requests, self.rounds, self.tuples, self.bytes, self.writes
        )
    }
}

/// Calls a statement.
///
/// # Errors
/// `InvalidError` if the values do not fit the parameters; the exception for the error of the call.
pub(super) fn call(
    py: Python<'_>,
    prepared: &Prepared,
    sql: &str,
    values: &Bound<'_, PyTuple>,
    named: &Bound<'_, PyDict>,
    cursor: Option<&str>,
) -> PyResult<BoundedPage> {
    let cursor: Option<Cursor> = cursor.map(str::parse).transpose().map_err(|error| raise(error, sql))?;
    let page = match cursor {
        Some(cursor) if values.is_empty() && named.is_empty() => {
            call_detached(py, sql, || prepared.resume(&cursor))?
        }
        cursor => {
            let values = arguments::bind(&prepared.parameters(), values, named)?;
            call_detached(py, sql, || prepared.page(&values, cursor.as_ref()))?
        }
    };
    Ok(BoundedPage { page, is_write: prepared.counts() })
}
