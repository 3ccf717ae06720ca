//! What the operators of a running query have done, as Python has it.

use arrow::datatypes::DataType;
use pyo3::prelude::*;
use whimbrel_cluster::OperatorActivity;
use whimbrel_sharded::Progress;
use whimbrel_temporal::{BEGINNING, INFINITY, NodeProgress, Time};

use crate::error::OrRaise;
use crate::events;
use crate::types;

/// Stage, channel and name; the numbers of the operators of the channel that it reads; rows that it has
/// handed out, the times of the last of them and up to which it has handed out everything; and what it keeps.
pub type OperatorTuple = (usize, usize, String, Vec<usize>, u64, Py<PyAny>, Py<PyAny>, HeldTuple);

/// Rows that an operator keeps, their bytes, and the first instant of them.
type HeldTuple = (usize, usize, Py<PyAny>);

/// The operators of all channels, inputs first. `clock`: the type of time.
///
/// # Errors
/// `InvalidError` if the type is none; what making a time raises.
pub fn of(py: Python<'_>, progress: &Progress, clock: Option<&str>) -> PyResult<Vec<OperatorTuple>> {
    let clock = clock.map(types::parse).transpose().or_raise()?;
    // One that runs a Python function is waited for, so the lock of the interpreter is left.
    tuples(py, py.detach(|| OperatorActivity::of(progress)), clock.as_ref())
}

/// The operators of a query. `clock`: the type of time.
///
/// # Errors
/// What making a time raises.
pub fn tuples(
    py: Python<'_>,
    operators: Vec<OperatorActivity>,
    clock: Option<&DataType>,
) -> PyResult<Vec<OperatorTuple>> {
    let instant = |time: Time| instant(py, time, clock);
    let tuple = |OperatorActivity { stage, channel, name, inputs, done }: OperatorActivity| {
        let NodeProgress { rows, latest, frontier, held } = done;
        let held = (held.rows, held.bytes, instant(held.oldest.unwrap_or(BEGINNING))?);
        Ok((stage, channel, name, inputs, rows, instant(latest)?, instant(frontier)?, held))
    };
    operators.into_iter().map(tuple).collect()
}

/// A time; none before the first, and the infinite one as a float.
fn instant(py: Python<'_>, time: Time, clock: Option<&DataType>) -> PyResult<Py<PyAny>> {
    match time {
        BEGINNING => Ok(py.None()),
        INFINITY => Ok(f64::INFINITY.into_pyobject(py)?.into_any().unbind()),
        time => events::instant(py, time, clock),
    }
}
