//! A database of bounded queries.
//!
//! The store is asked without the interpreter. Values are converted before, pages after.

use datafusion::common::plan_err;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::time::Duration;
use whimbrel_bounded::{Database, Executor, Options, predict};
use whimbrel_sql::Session;

use super::arguments;
use super::call::call_detached;
use super::page::{self, BoundedPage};
use super::prediction::{self, LatencyChart};
use super::query::BoundedQuery;
use crate::error::{OrRaise, invalid};
use crate::shutdown::detach;
use crate::sql::in_text;

/// A database over a key/value store.
#[pyclass(frozen, module = "whimbrel._whimbrel")]
pub struct BoundedDatabase {
    database: Database,
}

#[pymethods]
impl BoundedDatabase {
    /// Opens the store at an address.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        url: &str,
        executor: &str,
        make_indexes: bool,
        most_requests: u64,
        cursor_key: Option<Vec<u8>>,
        conflict_timeout: f64,
    ) -> PyResult<BoundedDatabase> {
        let conflict_timeout = seconds("conflict_timeout", conflict_timeout)?;
        let options = Options {
            executor: parse_executor(executor)?,
            make_indexes,
            most_requests,
            cursor_key: cursor_key.map(cursor_key_of).transpose()?,
            conflict_timeout,
        };
        Ok(BoundedDatabase { database: call_detached(py, "", || Database::open_url(url, options))? })
    }

    /// Runs the statements of a script; the result of the last one.
    #[pyo3(signature = (sql, values, named))]
    fn execute(
        &self,
        py: Python<'_>,
        sql: &str,
        values: &Bound<'_, PyTuple>,
        named: &Bound<'_, PyDict>,
    ) -> PyResult<Option<BoundedPage>> {
        let statements = Session::split(sql).map_err(|error| in_text(error, sql))?;
        let Some((last, before)) = statements.split_last() else {
            return plan_err!("there is no statement").or_raise();
        };
        // The values are those of the last statement.
        for statement in before {
            self.run(py, statement.text, &PyTuple::empty(py), &PyDict::new(py))?;
        }
        self.run(py, last.text, values, named)
    }

    /// Compiles a statement, and makes the indexes that it needs.
    fn prepare(&self, py: Python<'_>, sql: &str) -> PyResult<BoundedQuery> {
        let prepared = call_detached(py, sql, || self.database.prepare(sql))?;
        Ok(BoundedQuery { database: self.database.clone(), prepared, sql: sql.to_string() })
    }

    /// The plan of a statement and its bound. Makes no index.
    fn explain(&self, py: Python<'_>, sql: &str) -> PyResult<String> {
        Ok(call_detached(py, sql, || self.database.compile(sql))?.to_string())
    }

    /// Repairs indexes after a crash: the numbers of entries removed, added and settled, and the rows with
    /// the same unique key.
    fn repair(&self, py: Python<'_>, writes_take: f64) -> PyResult<(u64, u64, u64, Vec<String>)> {
        let wait = seconds("writes_take", writes_take)?;
        let repaired = call_detached(py, "", || self.database.repair(wait))?;
        Ok((repaired.removed, repaired.added, repaired.settled, repaired.duplicates))
    }

    /// Reads the schema again.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        call_detached(py, "", || self.database.refresh())
    }

    /// Measures the store, and keeps the model in it.
    fn measure(
        &self,
        py: Python<'_>,
        intervals: usize,
        samples: usize,
        clients: usize,
        pause: f64,
        add: bool,
    ) -> PyResult<()> {
        let pause = seconds("pause", pause)?;
        let options = predict::Options { intervals, samples, clients, pause, ..predict::Options::default() };
        prediction::measure(py, &self.database, &options, add)
    }

    /// The latency of a query for several values of one of its limits.
    fn chart(
        &self,
        py: Python<'_>,
        sql: &str,
        slo: &str,
        limit: &str,
        values: Vec<u64>,
    ) -> PyResult<LatencyChart> {
        prediction::chart(py, &self.database, sql, slo, limit, values)
    }

    /// The names of the tables.
    fn tables(&self, py: Python<'_>) -> Vec<String> {
        let schema = detach(py, || self.database.schema());
        schema.tables().map(|table| table.name.clone()).collect()
    }

    /// Closes the store.
    fn close(&self, py: Python<'_>) {
        detach(py, || self.database.close());
    }
}

impl BoundedDatabase {
    /// Runs one statement.
    fn run(
        &self,
        py: Python<'_>,
        sql: &str,
        values: &Bound<'_, PyTuple>,
        named: &Bound<'_, PyDict>,
    ) -> PyResult<Option<BoundedPage>> {
        if !call_detached(py, sql, || self.database.takes_values(sql))? {
            arguments::none(values, named)?;
            let result = call_detached(py, sql, || self.database.execute(sql, &[]))?;
            return Ok(result.map(BoundedPage::from));
        }
        let prepared = call_detached(py, sql, || self.database.prepare(sql))?;
        page::call(py, &prepared, sql, values, named, None).map(Some)
    }
}

/// A duration from a number of seconds.
fn seconds(what: &str, number: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(number)
        .map_err(|_| invalid(format!("{what} is a number of seconds that is not negative, not {number}")))
}

/// The executor, by its name.
fn parse_executor(name: &str) -> PyResult<Executor> {
    match name {
        "parallel" => Ok(Executor::Parallel),
        "simple" => Ok(Executor::Simple),
        "lazy" => Ok(Executor::Lazy),
        other => Err(invalid(format!("executor is \"parallel\", \"simple\" or \"lazy\", not {other:?}"))),
    }
}

/// The key that signs cursors.
fn cursor_key_of(bytes: Vec<u8>) -> PyResult<[u8; 32]> {
    bytes.try_into().map_err(|bytes: Vec<u8>| {
        invalid(format!("a cursor key has 32 bytes, not {}: secrets.token_bytes(32) makes one", bytes.len()))
    })
}
