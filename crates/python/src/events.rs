//! Messages as Python events: `(kind, start, end, row)`.
//!
//! A time is an integer on a logical clock, else a datetime. The end of time is no datetime: a punctuation
//! there has the integer.

use arrow::datatypes::DataType;
use pyo3::conversion::IntoPyObjectExt;
use pyo3::prelude::*;
use whimbrel_temporal::{INFINITY, Kind, Message, Time};

use crate::rows::Columns;
use crate::values;

/// The events of a message.
///
/// # Errors
/// `InvalidError` if a value has no Python object.
pub fn from_message(py: Python<'_>, message: &Message, time: Option<&DataType>) -> PyResult<Vec<Py<PyAny>>> {
    let batch = match message {
        Message::Punctuation(at) => {
            let event = ("punctuation", instant(py, *at, time)?, py.None(), py.None());
            return Ok(vec![event.into_py_any(py)?]);
        }
        Message::Batch(batch) => batch,
    };
    let mut events = Vec::with_capacity(batch.len());
    for (i, row) in Columns::rows(&batch.rows).into_iter().enumerate() {
        let (kind, end) = match batch.kind_at(i) {
            Kind::Interval => ("interval", instant(py, batch.other_at(i), time)?),
            Kind::Start => ("start", py.None()),
            Kind::End => ("end", instant(py, batch.sync[i], time)?),
        };
        events.push((kind, instant(py, batch.start_at(i), time)?, end, row).into_py_any(py)?);
    }
    Ok(events)
}

/// A time as Python has it.
///
/// # Errors
/// What making it raises.
pub fn instant(py: Python<'_>, ticks: Time, time: Option<&DataType>) -> PyResult<Py<PyAny>> {
    match time {
        Some(DataType::Timestamp(unit, zone)) if ticks != INFINITY => {
            values::instant(py, ticks, unit, zone.as_deref())
        }
        _ => ticks.into_py_any(py),
    }
}
