//! Python to Arrow: a column of objects.
//!
//! Invariant: a value that the type cannot hold is an error with the name of the column, never a null.
//! Objects are first written into the widest array of their kind, which is then cast to the type.

use arrow::array::*;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Float16Type, TimeUnit};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::*;
use std::sync::Arc;

use super::exact::{cast_exactly, unknown_field};
use super::objects::{characters, is_integer, key, nanoseconds, numpy_nanoseconds, of_library, show};
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
            Arc::new(collect::<Float64Array, f64>(name, objects, data_type, |o| float(o, data_type))?)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            Arc::new(collect::<StringArray, String>(name, objects, data_type, characters)?)
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
        DataType::Interval(_) => {
            Arc::new(collect::<StringArray, String>(name, objects, data_type, characters)?)
        }
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            let digits = |o: &Bound<'_, PyAny>| decimal(o, *precision, *scale);
            Arc::new(collect::<StringArray, String>(name, objects, data_type, digits)?)
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            list(name, objects, data_type, item)?
        }
        DataType::Struct(fields) => structure(name, objects, data_type, fields)?,
        other => {
            return Err(invalid(format!(
                "column \"{name}\": no Python object makes a {}",
                types::name(other)
            )));
        }
    };
    cast_exactly(name, &wide, data_type)
}

/// The error for an object that is no value of a type, with the reason if the error has one.
fn refused(name: &str, row: usize, object: &Bound<'_, PyAny>, data_type: &DataType, error: &PyErr) -> PyErr {
    let is_reason = error.get_type(object.py()).name().is_ok_and(|name| name == "InvalidError");
    let reason = if is_reason { format!(": {}", error.value(object.py())) } else { String::new() };
    let (shown, kind) = (show(object), types::name(data_type));
    invalid(format!("column \"{name}\": row {row} holds {shown}, which is no {kind}{reason}"))
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
        let refused = |error: PyErr| refused(name, row, object, data_type, &error);
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

/// A float. An integer that no float of the type is equal to is refused.
fn float(object: &Bound<'_, PyAny>, data_type: &DataType) -> PyResult<f64> {
    let value: f64 = object.extract()?;
    if object.is_instance_of::<PyFloat>() || !is_integer(object) {
        return Ok(value);
    }
    let nearest = match data_type {
        DataType::Float32 => f64::from(value as f32),
        DataType::Float16 => <Float16Type as ArrowPrimitiveType>::Native::from_f64(value).to_f64(),
        _ => value,
    };
    match PyFloat::new(object.py(), nearest).into_any().eq(object.call_method0("__index__")?)? {
        true => Ok(value),
        false => Err(invalid("it would be another number; give floats, or the column another type")),
    }
}

/// The digits of a decimal. One that has more of them, before or after the point, than the type is refused.
fn decimal(object: &Bound<'_, PyAny>, precision: u8, scale: i8) -> PyResult<String> {
    static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let exact = DECIMAL.import(object.py(), "decimal", "Decimal")?.call1((object.str()?,))?;
    if !exact.call_method0("is_finite")?.is_truthy()? {
        return Err(invalid("a decimal is finite"));
    }
    if !exact.is_truthy()? {
        return Ok("0".into());
    }
    // The place of the first digit that is not zero, which says how long the text is at most.
    let first: i64 = exact.call_method0("adjusted")?.extract()?;
    if first >= i64::from(precision) - i64::from(scale) {
        return Err(invalid("it has more digits before the point"));
    }
    let most = i64::from(scale.max(0));
    let more = || invalid("it has more digits after the point");
    if first < -most {
        return Err(more());
    }
    let text: String = exact.call_method1("__format__", ("f",))?.extract()?;
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction.trim_end_matches('0'));
    if fraction.len() as i64 > most { Err(more()) } else { Ok(text) }
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
        let text = |o: &Bound<'_, PyAny>| {
            let text = characters(o)?;
            check_precision(&text, data_type)?;
            Ok(text)
        };
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
    let unit = match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Duration(TimeUnit::Nanosecond) => {
            TimeUnit::Nanosecond
        }
        _ => TimeUnit::Microsecond,
    };
    let counted =
        collect::<Int64Array, i64>(name, objects, data_type, |object| match (unit, nanoseconds(object)) {
            (TimeUnit::Nanosecond, part) => match numpy_nanoseconds(object) {
                Some(ticks) => Ok(ticks),
                None => nanosecond_ticks(count(object)?, part),
            },
            (_, 0) => count(object),
            _ => Err(invalid("it has parts of a microsecond")),
        })?;
    let finest = match data_type {
        DataType::Date32 | DataType::Date64 => {
            let days = counted.iter().map(|d| d.map(|d| d as i32));
            return Ok(Arc::new(days.collect::<Date32Array>()));
        }
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, zone) => DataType::Timestamp(unit, zone.clone()),
        _ => DataType::Duration(unit),
    };
    Ok(make_array(counted.into_data().into_builder().data_type(finest).build().or_raise()?))
}

/// Microseconds and nanoseconds in nanoseconds.
fn nanosecond_ticks(microseconds: i64, nanoseconds: i64) -> PyResult<i64> {
    let ticks = microseconds.checked_mul(1_000).and_then(|ticks| ticks.checked_add(nanoseconds));
    ticks.ok_or_else(|| invalid("64 bits of nanoseconds do not reach so far"))
}

/// Refuses a text of a time with a finer part than the type has.
fn check_precision(text: &str, data_type: &DataType) -> PyResult<()> {
    let digits = match data_type {
        DataType::Date32 | DataType::Date64 => {
            let time = text.trim().split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
            return match time.contains(|c: char| ('1'..='9').contains(&c)) {
                true => Err(invalid("it has a time of day")),
                false => Ok(()),
            };
        }
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        },
        _ => return Ok(()),
    };
    let fraction = text.rsplit_once('.').map_or("", |(_, fraction)| fraction);
    let fraction = fraction.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    match fraction.trim_end_matches('0').len() > digits {
        true => Err(invalid("it has a finer part of a second than the type")),
        false => Ok(()),
    }
}

/// The days since 1970 of a date.
fn days(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    if object.is_instance_of::<PyDateTime>() {
        if !object.getattr("tzinfo")?.is_none() {
            return Err(invalid("it is an instant of a zone; give its .date()"));
        }
        let time: NaiveTime = object.call_method0("time")?.extract()?;
        if time != NaiveTime::MIN {
            return Err(invalid("it has a time of day; give its .date()"));
        }
        return days(&object.call_method0("date")?);
    }
    let date: NaiveDate = object.extract()?;
    Ok(date.signed_duration_since(NaiveDate::default()).num_days())
}

/// The microseconds since midnight of a time.
fn time_of_day(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let time: NaiveTime = object.extract()?;
    if !object.getattr("tzinfo")?.is_none() {
        return Err(invalid("it has a zone, and a time of day has none"));
    }
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
fn list(name: &str, objects: &[Bound<'_, PyAny>], data_type: &DataType, item: &Field) -> PyResult<ArrayRef> {
    let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for (row, object) in objects.iter().enumerate() {
        let from = items.len();
        if !object.is_none() {
            let parts = list_items(object);
            items.extend(parts.map_err(|error| refused(name, row, object, data_type, &error))?);
        }
        lengths.push(items.len() - from);
        valid.push(!object.is_none());
    }
    let values = column(name, &items, item.data_type())?;
    let field = Arc::new(Field::new("item", item.data_type().clone(), true));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(field, offsets, values, Some(valid.into())).or_raise()?))
}

/// The items of a list or another iterable. Those of a string or a dict are only a part of its value.
fn list_items<'py>(object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let is_whole = object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<PyDict>();
    if is_whole {
        return Err(invalid("it is no list"));
    }
    object.try_iter()?.collect()
}

/// A column of structs.
fn structure(
    name: &str,
    objects: &[Bound<'_, PyAny>],
    data_type: &DataType,
    fields: &Fields,
) -> PyResult<ArrayRef> {
    let known: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    if known.is_empty() {
        return Err(invalid(format!(
            "column \"{name}\": a dict without keys tells no type; give the column one in the schema, e.g. \
             \"struct[a: int64]\""
        )));
    }
    let present = objects.iter().enumerate().filter(|(_, object)| !object.is_none());
    for (row, object) in present {
        check_fields(name, object, &known).map_err(|error| {
            match error.is_instance_of::<pyo3::exceptions::PyTypeError>(object.py()) {
                true => refused(name, row, object, data_type, &error),
                false => error,
            }
        })?;
    }
    let valid: Vec<bool> = objects.iter().map(|o| !o.is_none()).collect();
    let mut columns = Vec::new();
    for (position, field) in fields.iter().enumerate() {
        let cells = objects.iter().map(|object| field_value(object, field.name(), position));
        let cells = cells.collect::<PyResult<Vec<_>>>()?;
        columns.push(column(&format!("{name}.{}", field.name()), &cells, field.data_type())?);
    }
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, Some(valid.into())).or_raise()?))
}

/// Whether an object is a tuple whose values have no names.
fn is_plain_tuple(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyTuple>() && !object.hasattr("_fields").unwrap_or_default()
}

/// Checks that every value of a mapping, a tuple or a named tuple has a field.
///
/// # Errors
/// `InvalidError` if one has none; `TypeError` if the object is none of these.
fn check_fields(name: &str, object: &Bound<'_, PyAny>, known: &[&str]) -> PyResult<()> {
    if is_plain_tuple(object) {
        return match object.len()? == known.len() {
            true => Ok(()),
            false => Err(invalid(format!(
                "column \"{name}\": {} has {} values for {} fields: {}",
                show(object),
                object.len()?,
                known.len(),
                known.join(", ")
            ))),
        };
    }
    let keys = match object.getattr("_fields") {
        Ok(fields) => fields,
        Err(_) => {
            object.call_method0("keys").map_err(|_| pyo3::exceptions::PyTypeError::new_err("no mapping"))?
        }
    };
    for field in keys.try_iter()? {
        let field = key(&field?)?;
        if !known.contains(&field.as_str()) {
            return Err(unknown_field(name, &field, known));
        }
    }
    Ok(())
}

/// A field of a mapping or a named tuple by its name, or of a tuple by its position. An absent one is null.
fn field_value<'py>(object: &Bound<'py, PyAny>, name: &str, position: usize) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if object.is_none() {
        return Ok(object.clone());
    }
    if is_plain_tuple(object) {
        return object.get_item(position);
    }
    if object.is_instance_of::<PyTuple>() {
        return Ok(object.getattr(name).unwrap_or_else(|_| py.None().into_bound(py)));
    }
    match object.get_item(name) {
        Ok(value) => Ok(value),
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyKeyError>(py) => {
            Ok(py.None().into_bound(py))
        }
        Err(error) => Err(error),
    }
}
