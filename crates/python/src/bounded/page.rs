//! What a call returns.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use whimbrel_bounded::{Cursor, Page, Prepared};

use super::refusal::raise;
use super::{arguments, detached};
use crate::table::NativeTable;
use crate::values;

/// The rows of a call, and where the next page begins.
#[pyclass(frozen, module = "whimbrel._whimbrel")]
pub struct BoundedPage {
    page: Page,
    written: bool,
}

/// Rows that were read.
impl From<Page> for BoundedPage {
    fn from(page: Page) -> BoundedPage {
        BoundedPage { page, written: false }
    }
}

#[pymethods]
impl BoundedPage {
    /// How many rows were written, if it was a write.
    fn written(&self) -> Option<i64> {
        self.written.then(|| self.page.batch.column(0).as_primitive::<Int64Type>().value(0))
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

    /// The rows as Arrow has them.
    fn table(&self) -> NativeTable {
        let batch = &self.page.batch;
        NativeTable { schema: batch.schema(), batches: vec![batch.clone()] }
    }

    /// Where the next page begins.
    fn cursor(&self) -> Option<String> {
        self.page.cursor.as_ref().map(ToString::to_string)
    }

    /// What was asked of the store.
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

/// What a call asked of the store.
#[pyclass(frozen, eq, get_all, module = "whimbrel.bounded")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operations {
    /// Requests of reads.
    requests: u64,
    /// Rounds of requests, one after the other.
    rounds: u64,
    /// Keys and values that came back.
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

/// Calls a statement with Python's values.
pub(super) fn called(
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
            detached(py, sql, || prepared.resume(&cursor))?
        }
        cursor => {
            let given = arguments::of(&prepared.parameters(), values, named)?;
            detached(py, sql, || prepared.page(&given, cursor.as_ref()))?
        }
    };
    Ok(BoundedPage { page, written: prepared.counts() })
}
