//! Arrow to Python: one cell.
//!
//! The object is the one that Python has for the value: an `int`, a `datetime`, a `Decimal`, a list. Where
//! Python has none, as for an interval of months, it is text that can be written back; for other types it is
//! an error.

use arrow::array::cast::AsArray;
use arrow::array::types::*;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, StructArray};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::array_value_to_string;
use chrono::{DateTime, Datelike, NaiveDate};
use pyo3::conversion::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDelta, PyDict, PyList};

use crate::error::{OrRaise, invalid};
use crate::types;

/// The Python object of a cell; `None` for a null.
///
/// # Errors
/// `InvalidError` if there is no object for the type, or the value is out of the range of Python's.
pub fn cell(py: Python<'_>, array: &dyn Array, row: usize) -> PyResult<Py<PyAny>> {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Ok(py.None());
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into_py_any(py),
        DataType::Int8 => number::<Int8Type>(py, array, row),
        DataType::Int16 => number::<Int16Type>(py, array, row),
        DataType::Int32 => number::<Int32Type>(py, array, row),
        DataType::Int64 => number::<Int64Type>(py, array, row),
        DataType::UInt8 => number::<UInt8Type>(py, array, row),
        DataType::UInt16 => number::<UInt16Type>(py, array, row),
        DataType::UInt32 => number::<UInt32Type>(py, array, row),
        DataType::UInt64 => number::<UInt64Type>(py, array, row),
        DataType::Float16 => primitive::<Float16Type>(array).value(row).to_f64().into_py_any(py),
        DataType::Float32 => number::<Float32Type>(py, array, row),
        DataType::Float64 => number::<Float64Type>(py, array, row),
        DataType::Utf8 => array.as_string::<i32>().value(row).into_py_any(py),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into_py_any(py),
        DataType::Utf8View => array.as_string_view().value(row).into_py_any(py),
        DataType::Binary => bytes(py, array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => bytes(py, array.as_binary::<i64>().value(row)),
        DataType::BinaryView => bytes(py, array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => bytes(py, array.as_fixed_size_binary().value(row)),
        DataType::Date32 => {
            let days = primitive::<Date32Type>(array);
            date(py, days.value_as_date(row), days.value(row).into())
        }
        DataType::Date64 => {
            let milliseconds = primitive::<Date64Type>(array);
            date(py, milliseconds.value_as_date(row), milliseconds.value(row))
        }
        DataType::Time32(TimeUnit::Second) => {
            primitive::<Time32SecondType>(array).value_as_time(row).into_py_any(py)
        }
        DataType::Time32(_) => primitive::<Time32MillisecondType>(array).value_as_time(row).into_py_any(py),
        DataType::Time64(TimeUnit::Microsecond) => {
            primitive::<Time64MicrosecondType>(array).value_as_time(row).into_py_any(py)
        }
        DataType::Time64(_) => primitive::<Time64NanosecondType>(array).value_as_time(row).into_py_any(py),
        DataType::Timestamp(unit, zone) => {
            instant(py, timestamp_ticks(array, row, unit), unit, zone.as_deref())
        }
        DataType::Duration(unit) => duration(py, duration_ticks(array, row, unit), unit),
        DataType::Decimal128(..) => decimal(py, array.as_primitive::<Decimal128Type>().value_as_string(row)),
        DataType::Decimal256(..) => decimal(py, array.as_primitive::<Decimal256Type>().value_as_string(row)),
        // Python has no type for months. The text of an interval can be written back as one.
        DataType::Interval(_) => array_value_to_string(array, row).or_raise()?.into_py_any(py),
        DataType::List(_) => list(py, &array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(py, &array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(py, &array.as_fixed_size_list().value(row)),
        DataType::Struct(_) => struct_dict(py, array, row),
        DataType::Map(..) => map_dict(py, &array.as_map().value(row)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            cell(py, dictionary.values().as_ref(), dictionary.normalized_keys()[row])
        }
        other => Err(invalid(format!(
            "a value of type {} has no Python object; cast the column first, e.g. .cast(\"string\")",
            types::name(other)
        ))),
    }
}

/// The array of a primitive type.
fn primitive<T: ArrowPrimitiveType>(array: &dyn Array) -> &PrimitiveArray<T> {
    array.as_primitive::<T>()
}

/// A number.
fn number<'py, T>(py: Python<'py>, array: &dyn Array, row: usize) -> PyResult<Py<PyAny>>
where
    T: ArrowPrimitiveType,
    T::Native: IntoPyObjectExt<'py>,
{
    primitive::<T>(array).value(row).into_py_any(py)
}

/// A bytes object.
fn bytes(py: Python<'_>, value: &[u8]) -> PyResult<Py<PyAny>> {
    Ok(PyBytes::new(py, value).into_any().unbind())
}

/// A date. Python's end in the year 9999: later ones stay integers.
fn date(py: Python<'_>, date: Option<NaiveDate>, ticks: i64) -> PyResult<Py<PyAny>> {
    match date.filter(|date| (1..=9999).contains(&date.year())) {
        Some(date) => date.into_py_any(py),
        None => ticks.into_py_any(py),
    }
}

/// The ticks of a timestamp.
fn timestamp_ticks(array: &dyn Array, row: usize, unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => primitive::<TimestampSecondType>(array).value(row),
        TimeUnit::Millisecond => primitive::<TimestampMillisecondType>(array).value(row),
        TimeUnit::Microsecond => primitive::<TimestampMicrosecondType>(array).value(row),
        TimeUnit::Nanosecond => primitive::<TimestampNanosecondType>(array).value(row),
    }
}

/// The ticks of a duration.
fn duration_ticks(array: &dyn Array, row: usize, unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => primitive::<DurationSecondType>(array).value(row),
        TimeUnit::Millisecond => primitive::<DurationMillisecondType>(array).value(row),
        TimeUnit::Microsecond => primitive::<DurationMicrosecondType>(array).value(row),
        TimeUnit::Nanosecond => primitive::<DurationNanosecondType>(array).value(row),
    }
}

/// Ticks of a unit in microseconds, the unit of Python's datetimes. Nanoseconds are rounded down.
fn microseconds(ticks: i64, unit: &TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Second => ticks.checked_mul(1_000_000),
        TimeUnit::Millisecond => ticks.checked_mul(1_000),
        TimeUnit::Microsecond => Some(ticks),
        TimeUnit::Nanosecond => Some(ticks.div_euclid(1_000)),
    }
}

/// The Python datetime of a timestamp of this unit and zone.
///
/// # Errors
/// `ZoneInfoNotFoundError` if Python has no such zone.
pub fn instant(py: Python<'_>, ticks: i64, unit: &TimeUnit, zone: Option<&str>) -> PyResult<Py<PyAny>> {
    let instant = microseconds(ticks, unit).and_then(DateTime::from_timestamp_micros);
    // Python's datetimes end in the year 9999. Later timestamps stay integers.
    let Some(instant) = instant.filter(|i| (1..=9999).contains(&i.year())) else {
        return ticks.into_py_any(py);
    };
    match zone {
        None => instant.naive_utc().into_py_any(py),
        Some("UTC" | "Etc/UTC" | "Z" | "+00:00") => instant.into_py_any(py),
        Some(name) => {
            let zone = zone_object(py, name)?;
            match instant.into_bound_py_any(py)?.call_method1("astimezone", (zone,)) {
                Ok(local) => Ok(local.unbind()),
                // The local time is in another year, which Python does not have.
                Err(error) if error.is_instance_of::<PyOverflowError>(py) => ticks.into_py_any(py),
                Err(error) => Err(error),
            }
        }
    }
}

/// The time zone object for the name of a zone or a fixed offset.
fn zone_object<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(offset) = name.parse::<chrono::FixedOffset>() {
        return offset.into_bound_py_any(py);
    }
    py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((name,))
}

/// A timedelta.
fn duration(py: Python<'_>, ticks: i64, unit: &TimeUnit) -> PyResult<Py<PyAny>> {
    let Some(microseconds) = microseconds(ticks, unit) else {
        return Err(invalid("a duration is too long for Python's timedelta; cast the column to int64"));
    };
    let (days, rest) = (microseconds.div_euclid(86_400_000_000), microseconds.rem_euclid(86_400_000_000));
    let (seconds, rest) = (rest / 1_000_000, rest % 1_000_000);
    // The days fit: 64 bits of microseconds are at most 107 million days.
    Ok(PyDelta::new(py, days as i32, seconds as i32, rest as i32, false)?.into_any().unbind())
}

/// A `decimal.Decimal`.
fn decimal(py: Python<'_>, text: String) -> PyResult<Py<PyAny>> {
    static DECIMAL: PyOnceLock<Py<pyo3::types::PyType>> = PyOnceLock::new();
    Ok(DECIMAL.import(py, "decimal", "Decimal")?.call1((text,))?.unbind())
}

/// A list of the items.
fn list(py: Python<'_>, items: &ArrayRef) -> PyResult<Py<PyAny>> {
    let objects = (0..items.len()).map(|i| cell(py, items.as_ref(), i)).collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, objects)?.into_any().unbind())
}

/// A dict of the fields of a struct.
fn struct_dict(py: Python<'_>, array: &dyn Array, row: usize) -> PyResult<Py<PyAny>> {
    let (fields, dict) = (array.as_struct(), PyDict::new(py));
    for (name, column) in fields.column_names().iter().zip(fields.columns()) {
        dict.set_item(name, cell(py, column.as_ref(), row)?)?;
    }
    Ok(dict.into_any().unbind())
}

/// A dict of the entries of a map; a list of pairs if a key, such as a list, cannot be one of a dict.
fn map_dict(py: Python<'_>, entries: &StructArray) -> PyResult<Py<PyAny>> {
    let part = |column: usize, row: usize| cell(py, entries.column(column).as_ref(), row);
    let pairs = (0..entries.len()).map(|row| Ok((part(0, row)?, part(1, row)?)));
    let pairs = pairs.collect::<PyResult<Vec<_>>>()?;
    let dict = PyDict::new(py);
    for (key, value) in &pairs {
        if let Err(error) = dict.set_item(key, value) {
            return match error.is_instance_of::<PyTypeError>(py) {
                true => pairs.into_py_any(py),
                false => Err(error),
            };
        }
    }
    Ok(dict.into_any().unbind())
}
