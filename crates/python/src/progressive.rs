//! Early results of queries over tables.

use datafusion::error::DataFusionError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use whimbrel_sharded::Job;
use whimbrel_sharded::action::{self, Awaited, Progressive};

use crate::arguments::Count;
use crate::error::{OrRaise, invalid};
use crate::plan::NativePlan;
use crate::run::{NativeOptions, POLL_INTERVAL, poll_signals};
use crate::shutdown::{InterpreterGuard, detach};
use crate::subscribe::check_process;
use crate::table::NativeTable;

/// A query that gives early results.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Progressive")]
pub struct NativeProgressive {
    /// None once it is closed.
    running: Mutex<Option<Progressive>>,
    job: Arc<Job>,
    /// The process that runs it: a fork has none of its threads.
    process: u32,
}

#[pymethods]
impl NativeProgressive {
    /// Waits for the next result: the share of the table that was read, and the rows; none after the last.
    fn next(&self, py: Python<'_>) -> PyResult<Option<(f64, NativeTable)>> {
        check_process(self.process)?;
        let _guard = InterpreterGuard::new().or_raise()?;
        loop {
            let awaited = detach(py, || self.wait_until(Instant::now() + POLL_INTERVAL));
            poll_signals(py, &self.job, None)?;
            match awaited.or_raise()? {
                Awaited::Result(early) => {
                    let table = NativeTable { schema: early.table.schema, batches: early.table.batches };
                    return Ok(Some((early.share, table)));
                }
                Awaited::NotYet => {}
                Awaited::End => return Ok(None),
            }
        }
    }

    /// Ends the query.
    fn close(&self, py: Python<'_>) {
        self.job.cancel();
        detach(py, || drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

impl NativeProgressive {
    fn wait_until(&self, until: Instant) -> Result<Awaited, DataFusionError> {
        match &mut *self.running.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(running) => running.wait_until(until),
            None => Ok(Awaited::End),
        }
    }
}

/// Starts a query that gives so many results at most.
///
/// # Errors
/// `InvalidError` if the query has no early results.
#[pyfunction]
pub fn progressive(
    py: Python<'_>,
    plan: &NativePlan,
    options: &NativeOptions,
    results: Count,
) -> PyResult<NativeProgressive> {
    let Ok(parts) = u32::try_from(results.0) else {
        return Err(invalid(format!("results is at most {}", u32::MAX)));
    };
    let running = detach(py, || action::progressive(&plan.stream, &options.options, parts)).or_raise()?;
    let job = Arc::clone(running.job());
    Ok(NativeProgressive { running: Mutex::new(Some(running)), job, process: std::process::id() })
}
