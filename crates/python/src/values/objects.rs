//! Objects of Python's libraries: missing values, and the scalars of NumPy.
//!
//! The libraries are recognized by the names of classes, so that none of them has to be imported.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDateTime, PyDelta, PyString};

use crate::error::invalid;

/// The most characters of an object in a message.
const SHOWN_CHARACTERS: usize = 60;

/// Python's object for a timestamp or a duration of NumPy, or `None` for a missing value of pandas or NumPy.
/// Nothing, if the object is none of these, or has parts of a microsecond, which Python's would lose.
pub fn of_library<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let class = object.get_type().name().ok()?;
    match class.to_cow().ok()?.as_ref() {
        "NaTType" | "NAType" => Some(object.py().None().into_bound(object.py())),
        name @ ("datetime64" | "timedelta64") => {
            let days =
                object.getattr("dtype").and_then(|dtype| dtype.str()).ok()?.to_string().contains("[D]");
            let unit = if days { "D" } else { "us" };
            let converted = object.call_method1("astype", (format!("{name}[{unit}]"),)).ok()?;
            let item = converted.call_method0("item").ok()?;
            (item.is_none() || converted.eq(object).ok()?).then_some(item)
        }
        _ => None,
    }
}

/// The nanoseconds of a microsecond of a `Timestamp` or `Timedelta` of pandas, which Python's classes lack.
pub fn nanoseconds(object: &Bound<'_, PyAny>) -> i64 {
    if object.is_exact_instance_of::<PyDateTime>() || object.is_exact_instance_of::<PyDelta>() {
        return 0;
    }
    let class = object.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    let attribute = match class.as_str() {
        "Timestamp" => "nanosecond",
        "Timedelta" => "nanoseconds",
        _ => return 0,
    };
    object.getattr(attribute).and_then(|part| part.extract()).unwrap_or_default()
}

/// The ticks of a `datetime64` or a `timedelta64` of NumPy, in nanoseconds. Nothing, if it is none of these,
/// or is out of reach of nanoseconds.
pub fn numpy_nanoseconds(object: &Bound<'_, PyAny>) -> Option<i64> {
    let class = object.get_type().name().ok()?.to_string();
    if !matches!(class.as_str(), "datetime64" | "timedelta64") {
        return None;
    }
    let nanoseconds = object.call_method1("astype", (format!("{class}[ns]"),)).ok()?;
    // One that overflows comes back as another one. A missing one is not equal to itself.
    let is_same = nanoseconds.eq(object).ok()?;
    let ticks = nanoseconds.call_method1("astype", ("int64",)).ok()?.extract().ok()?;
    is_same.then_some(ticks)
}

/// The characters of a string. Those of an enumeration of strings are its value, which `str` does not give.
///
/// # Errors
/// `InvalidError` if it has half of a surrogate pair; `TypeError` if it is no string.
pub fn characters(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = object.cast::<PyString>()?.to_cow();
    Ok(text.map_err(|_| invalid("it has half of a surrogate pair, which is no character"))?.into_owned())
}

/// A key of a dict as the name of a column or a field.
///
/// # Errors
/// `InvalidError` if it is no text.
pub fn key(object: &Bound<'_, PyAny>) -> PyResult<String> {
    characters(object).map_err(|_| {
        invalid(format!(
            "a column or a field has a text as its name, not {}; give the keys as text",
            show(object)
        ))
    })
}

/// Whether it is an integer of Python or of a library such as NumPy. A boolean is none.
pub fn is_integer(object: &Bound<'_, PyAny>) -> bool {
    !object.is_instance_of::<PyBool>() && object.hasattr("__index__").unwrap_or_default()
}

/// The text of an object in a message.
pub fn show(object: &Bound<'_, PyAny>) -> String {
    let text = object.repr().map_or_else(|_| "an object".into(), |r| r.to_string());
    match text.chars().count() > SHOWN_CHARACTERS {
        true => text.chars().take(SHOWN_CHARACTERS - 3).collect::<String>() + "...",
        false => text,
    }
}
