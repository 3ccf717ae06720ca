//! Objects of Python's libraries: missing values, and the scalars of NumPy.
//!
//! The libraries are recognized by the names of classes, so that none of them has to be imported.

use pyo3::prelude::*;

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

/// The text of an object in a message.
pub fn show(object: &Bound<'_, PyAny>) -> String {
    let text = object.repr().map_or_else(|_| "an object".into(), |r| r.to_string());
    match text.chars().count() > SHOWN_CHARACTERS {
        true => text.chars().take(SHOWN_CHARACTERS - 3).collect::<String>() + "...",
        false => text,
    }
}
