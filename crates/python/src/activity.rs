//! What the operators of a running query have done, as Python has it.

use arrow::datatypes::DataType;
use pyo3::prelude::*;
use whimbrel_sharded::Progress;
use whimbrel_temporal::{BEGINNING, INFINITY, Time};

use crate::error::OrRaise;
use crate::events;
use crate::types;

/// Stage, channel and name; the numbers of the operators of the channel that it reads; rows that it has
/// handed out, and that it keeps; the times of its last row and up to which it has handed out everything.
pub type OperatorTuple = (usize, usize, &'static str, Vec<usize>, u64, u64, Py<PyAny>, Py<PyAny>);

/// The operators of all channels, inputs first. `clock`: the type of time.
///
/// # Errors
/// `InvalidError` if the type is none; what making a time raises.
pub fn of(py: Python<'_>, progress: &Progress, clock: Option<&str>) -> PyResult<Vec<OperatorTuple>> {
    let clock = clock.map(types::parse).transpose().or_raise()?;
    let mut operators = Vec::new();
    for ((stage, channel), nodes) in progress.activity() {
        for node in nodes {
            let done = node.activity.progress();
            let [latest, frontier] =
                [done.latest, done.frontier].map(|time| instant(py, time, clock.as_ref()));
            let (rows, held) = (done.rows, done.held);
            operators.push((stage, channel, node.name, node.inputs, rows, held, latest?, frontier?));
        }
    }
    Ok(operators)
}

/// A time; none before the first, and the infinite one as a float.
fn instant(py: Python<'_>, time: Time, clock: Option<&DataType>) -> PyResult<Py<PyAny>> {
    match time {
        BEGINNING => Ok(py.None()),
        INFINITY => Ok(f64::INFINITY.into_pyobject(py)?.into_any().unbind()),
        time => events::instant(py, time, clock),
    }
}
