//! Python to Arrow: a column of objects.
//!
//! Invariant: a value that the type cannot hold is an error with the name of the column, never a null.
//! Objects are first written into the widest array of their kind, which is then cast to the type.

use arrow::array::*;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, TimeUnit};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use pyo3::prelude::*;
use pyo3::types::*;
use std::sync::Arc;

use super::objects::{of_library, show};
use crate::error::{OrRaise, invalid};
use crate::types;

/// A column of this type. `None` is null.
///
/// # Errors
/// `InvalidError` if an object is no value of the type.
pub fn column(name: &str, objects: &[Bound<'_, PyAny>], data_type: &DataType) -> PyResult<ArrayRef> {
    let wide: ArrayRef = match data_type {
        DataType::Null => Arc::new(NullArray::new(objects.len())),
        DataType::Boolean => {
            Arc::new(collect::<BooleanArray, bool>(name, objects, data_type, |o| o.extract())?)
        }
        DataType::UInt64 => Arc::new(collect::<UInt64Array, u64>(name, objects, data_type, unsigned)?),
        t if t.is_integer() => Arc::new(collect::<Int64Array, i64>(name, objects, data_type, signed)?),
        t if t.is_floating() => {
            Arc::new(collect::<Float64Array, f64>(name, objects, data_type, |o| o.extract())?)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            Arc::new(collect::<StringArray, String>(name, objects, data_type, text)?)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let values = collect::<Vec<Option<Vec<u8>>>, _>(name, objects, data_type, |o| o.extract())?;
            Arc::new(BinaryArray::from_iter(values))
        }
        DataType::Date32 | DataType::Date64 => temporal(name, objects, data_type, days)?,
        DataType::Time32(_) | DataType::Time64(_) => temporal(name, objects, data_type, time_of_day)?,
        DataType::Timestamp(_, _) => temporal(name, objects, data_type, instant)?,
        DataType::Duration(_) => temporal(name, objects, data_type, duration)?,
        // Months, days and parts of a day, in words: "1 month 3 days".
        DataType::Interval(_) => Arc::new(collect::<StringArray, String>(name, objects, data_type, text)?),
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            Arc::new(collect::<StringArray, String>(name, objects, data_type, |o| decimal(o, *scale))?)
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            list(name, objects, item)?
        }
        DataType::Struct(fields) => structure(name, objects, fields)?,
        other => {
            return Err(invalid(format!(
                "column \"{name}\": no Python object makes a {}",
                types::name(other)
            )));
        }
    };
    if wide.data_type() == data_type {
        return Ok(wide);
    }
    let options = CastOptions { safe: false, ..Default::default() };
    cast_with_options(&wide, data_type, &options)
        .map_err(|error| invalid(format!("column \"{name}\": not a {}: {error}", types::name(data_type))))
}

/// Extracts a value from each object.
///
/// # Errors
/// `InvalidError` with the row of the first object that does not fit.
fn collect<C: FromIterator<Option<T>>, T>(
    name: &str,
    objects: &[Bound<'_, PyAny>],
    data_type: &DataType,
    extract: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<C> {
    let one = |(row, object): (usize, &Bound<'_, PyAny>)| {
        if object.is_none() {
            return Ok(None);
        }
        let refused = |_| {
            invalid(format!(
                "column \"{name}\": row {row} holds {}, which is no {}",
                show(object),
                types::name(data_type)
            ))
        };
        match (extract(object), of_library(object)) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(_), Some(converted)) if converted.is_none() => Ok(None),
            (Err(_), Some(converted)) => extract(&converted).map(Some).map_err(refused),
            (Err(error), None) => Err(refused(error)),
        }
    };
    objects.iter().enumerate().map(one).collect()
}

/// An integer of 64 bits.
fn signed(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    object.extract().or_else(|_| integer(object)?.extract())
}

/// An unsigned integer of 64 bits.
fn unsigned(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    object.extract().or_else(|_| integer(object)?.extract())
}

/// Python's integer for a float or a number of another library. A float with a fraction is refused.
fn integer<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match object.is_instance_of::<PyFloat>() {
        true if object.extract::<f64>()?.fract() != 0.0 => Err(invalid("a fraction")),
        true => object.call_method0("__int__"),
        false => object.call_method0("item"),
    }
}

/// The text of a decimal. One with more digits after the point than the scale is refused.
fn decimal(object: &Bound<'_, PyAny>, scale: i8) -> PyResult<String> {
    let text = object.str()?.to_string();
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction.trim_end_matches('0'));
    match fraction.len() > usize::try_from(scale).unwrap_or_default() && !text.contains(['e', 'E']) {
        true => Err(invalid("more digits")),
        false => Ok(text),
    }
}

/// A string. Other objects are not converted to one.
fn text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(object.cast::<PyString>()?.to_string())
}

/// Dates, times, timestamps and durations. They are counted in microseconds, the unit of Python, then cast.
/// Integers are ticks of the type's unit, strings are ISO 8601.
fn temporal(
    name: &str,
    objects: &[Bound<'_, PyAny>],
    data_type: &DataType,
    count: impl Fn(&Bound<'_, PyAny>) -> PyResult<i64>,
) -> PyResult<ArrayRef> {
    let first = objects.iter().find(|o| !o.is_none());
    if first.is_some_and(|o| o.is_instance_of::<PyString>()) {
        return Ok(Arc::new(collect::<StringArray, String>(name, objects, data_type, text)?));
    }
    if first.is_some_and(|o| o.is_instance_of::<PyInt>()) {
        let ticks = collect::<Int64Array, i64>(name, objects, data_type, signed)?;
        return match data_type {
            DataType::Date32 | DataType::Time32(_) => cast_with_options(
                &ticks,
                &DataType::Int32,
                &CastOptions { safe: false, ..Default::default() },
            )
            .or_raise(),
            _ => Ok(Arc::new(ticks)),
        };
    }
    let counted = collect::<Int64Array, i64>(name, objects, data_type, count)?;
    let finest = match data_type {
        DataType::Date32 | DataType::Date64 => {
            let days = counted.iter().map(|d| d.map(|d| d as i32));
            return Ok(Arc::new(days.collect::<Date32Array>()));
        }
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        _ => DataType::Duration(TimeUnit::Microsecond),
    };
    Ok(make_array(counted.into_data().into_builder().data_type(finest).build().or_raise()?))
}

/// The days since 1970 of a date.
fn days(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let date: NaiveDate = object.extract()?;
    Ok(date.signed_duration_since(NaiveDate::default()).num_days())
}

/// The microseconds since midnight of a time.
fn time_of_day(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let time: NaiveTime = object.extract()?;
    Ok(i64::from(time.num_seconds_from_midnight()) * 1_000_000 + i64::from(time.nanosecond() / 1_000))
}

/// The microseconds since 1970 of a date or a datetime.
fn instant(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    if !object.is_instance_of::<PyDateTime>() {
        return Ok(days(object)? * 86_400_000_000);
    }
    if object.getattr("tzinfo")?.is_none() {
        let naive: NaiveDateTime = object.extract()?;
        return Ok(naive.and_utc().timestamp_micros());
    }
    let aware: DateTime<chrono::FixedOffset> = match object.extract() {
        Ok(aware) => aware,
        // A zone of `zoneinfo` has no fixed offset. Python converts it.
        Err(_) => object.call_method1("astimezone", (chrono::Utc,))?.extract()?,
    };
    Ok(aware.timestamp_micros())
}

/// The microseconds of a timedelta.
fn duration(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let duration: chrono::Duration = object.extract()?;
    duration.num_microseconds().ok_or_else(|| invalid("too long"))
}

/// A column of lists.
fn list(name: &str, objects: &[Bound<'_, PyAny>], item: &Field) -> PyResult<ArrayRef> {
    let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for object in objects {
        let from = items.len();
        if !object.is_none() {
            items.extend(object.try_iter()?.collect::<PyResult<Vec<_>>>()?);
        }
        lengths.push(items.len() - from);
        valid.push(!object.is_none());
    }
    let values = column(name, &items, item.data_type())?;
    let field = Arc::new(Field::new("item", item.data_type().clone(), true));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(field, offsets, values, Some(valid.into())).or_raise()?))
}

/// A column of structs.
fn structure(
    name: &str,
    objects: &[Bound<'_, PyAny>],
    fields: &arrow::datatypes::Fields,
) -> PyResult<ArrayRef> {
    let valid: Vec<bool> = objects.iter().map(|o| !o.is_none()).collect();
    let mut columns = Vec::new();
    for (position, field) in fields.iter().enumerate() {
        let cells = objects.iter().map(|object| field_value(object, field.name(), position));
        let cells = cells.collect::<PyResult<Vec<_>>>()?;
        columns.push(column(&format!("{name}.{}", field.name()), &cells, field.data_type())?);
    }
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, Some(valid.into())).or_raise()?))
}

/// A field of a mapping by its name, or of a tuple by its position. A field that is absent is null.
fn field_value<'py>(object: &Bound<'py, PyAny>, name: &str, position: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if object.is_none() {
        return Ok(object.clone());
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return tuple.get_item(position);
    }
    match object.get_item(name) {
        Ok(value) => Ok(value),
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyKeyError>(py) => {
            Ok(py.None().into_bound(py))
        }
        Err(error) => Err(error),
    }
}
