//! Counts and durations as arguments of Python's calls.
//!
//! They are types of their own because their extraction fails with an `InvalidError` that says what is
//! wanted. PyO3's own conversions of integers fail with a `TypeError` or an `OverflowError`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDeltaAccess, PyString};
use std::time::Instant;
use whimbrel_plan::Duration;

use crate::error::invalid;
use crate::values;

/// A number of rows or shards: an integer that is not negative.
pub struct Count(pub usize);

impl<'py> FromPyObject<'_, 'py> for Count {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Count> {
        object.extract().map(Count).map_err(|_| {
            let shown = values::show(&object);
            invalid(format!(
                "{shown} is no count: a whole number that is not negative is wanted, and none too large"
            ))
        })
    }
}

/// A duration: a text such as `"5m"`, a timedelta, or an integer on a logical clock.
pub struct Length(pub Duration);

impl<'py> FromPyObject<'_, 'py> for Length {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Length> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Length(Duration::Text(text.to_string())));
        }
        if let Ok(delta) = object.cast::<PyDelta>() {
            let seconds = i128::from(delta.get_days()) * 86_400 + i128::from(delta.get_seconds());
            let micros = seconds * 1_000_000 + i128::from(delta.get_microseconds());
            // The timedeltas of pandas have nanoseconds.
            let nanos: i128 = object.getattr("nanoseconds").and_then(|n| n.extract()).unwrap_or_default();
            return Ok(Length(Duration::Nanos(micros * 1_000 + nanos)));
        }
        if let Some(nanos) = numpy_duration(&object)? {
            return Ok(Length(Duration::Nanos(nanos.into())));
        }
        if let Some(ticks) = integer(&object)? {
            return Ok(Length(Duration::Ticks(ticks)));
        }
        Err(invalid(format!(
            "{} is no duration; write \"5m\" or a timedelta, or on a logical clock an integer",
            values::show(&object)
        )))
    }
}

/// The nanoseconds of a `timedelta64`.
fn numpy_duration(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if object.get_type().name()? != "timedelta64" {
        return Ok(None);
    }
    let exact = |unit: &str| object.call_method1("astype", (unit,));
    // A duration that overflows its nanoseconds comes back as another one.
    let nanos = exact("timedelta64[ns]").and_then(|nanos| {
        let same = nanos.eq(object)?;
        let count: i64 = nanos.call_method1("astype", ("int64",))?.extract()?;
        Ok(same.then_some(count))
    });
    match nanos {
        Ok(Some(count)) => Ok(Some(count)),
        _ => Err(invalid(format!("{} is no duration of so many nanoseconds", values::show(object)))),
    }
}

/// An integer of Python or of a library such as NumPy. A boolean is none.
fn integer(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let is_bool =
        object.is_instance_of::<PyBool>() || object.get_type().name()?.to_cow()?.starts_with("bool");
    if is_bool || !object.hasattr("__index__")? {
        return Ok(None);
    }
    match object.extract() {
        Ok(integer) => Ok(Some(integer)),
        Err(_) => Err(invalid(format!("{} is too large a number for a duration", values::show(object)))),
    }
}

/// When a wait of so many seconds ends; none if it has no end, or one that no clock can measure. What is no
/// number, or less than none, means not to wait.
pub fn deadline(seconds: Option<f64>) -> Option<Instant> {
    let wait = std::time::Duration::try_from_secs_f64(seconds?.max(0.0)).ok()?;
    Instant::now().checked_add(wait)
}
