//! Python to Arrow: a column of objects, or one literal.
//!
//! Objects are first put into the widest array of their kind, then cast to the type wanted; a value that the
//! type cannot hold is an error that names the column, never a null.

use arrow::array::*;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, TimeUnit};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use datafusion::common::ScalarValue;
use pyo3::prelude::*;
use pyo3::types::*;
use std::sync::Arc;

use super::infer;
use crate::error::{OrRaise, invalid};
use crate::types;

/// A literal of the type of the object, or of the type given.
pub fn literal(object: &Bound<'_, PyAny>, data_type: Option<&DataType>) -> PyResult<ScalarValue> {
    let objects = [object.clone()];
    let inferred;
    let data_type = match data_type {
        Some(given) => given,
        None => {
            inferred = infer("literal", &objects)?;
            &inferred
        }
    };
    ScalarValue::try_from_array(&column("literal", &objects, data_type)?, 0).or_raise()
}

/// A column of this type from Python objects; `None` is null.
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
        DataType::Duration(_) => temporal(name, objects, data_type, length)?,
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

/// Extracts each object, names the first that does not fit.
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
            (Err(_), Some(plain)) if plain.is_none() => Ok(None),
            (Err(_), Some(plain)) => extract(&plain).map(Some).map_err(refused),
            (Err(error), None) => Err(refused(error)),
        }
    };
    objects.iter().enumerate().map(one).collect()
}

/// Python's object for an instant or a length of NumPy's, or `None` for a missing value of pandas or NumPy. What Python
/// cannot count, parts of a microsecond, is not cut off.
pub fn of_library<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let class = object.get_type().name().ok()?;
    match class.to_cow().ok()?.as_ref() {
        "NaTType" | "NAType" => Some(object.py().None().into_bound(object.py())),
        name @ ("datetime64" | "timedelta64") => {
            let days =
                object.getattr("dtype").and_then(|dtype| dtype.str()).ok()?.to_string().contains("[D]");
            let unit = if days { "D" } else { "us" };
            let exact = object.call_method1("astype", (format!("{name}[{unit}]"),)).ok()?;
            let item = exact.call_method0("item").ok()?;
            (item.is_none() || exact.eq(object).ok()?).then_some(item)
        }
        _ => None,
    }
}

/// An object as messages show it.
pub fn show(object: &Bound<'_, PyAny>) -> String {
    let text = object.repr().map_or_else(|_| "an object".into(), |r| r.to_string());
    if text.chars().count() > 60 { text.chars().take(57).collect::<String>() + "..." } else { text }
}

fn signed(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    object.extract().or_else(|_| whole(object)?.extract())
}

fn unsigned(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    object.extract().or_else(|_| whole(object)?.extract())
}

/// Python's integer for a float or a number of another library. A float with a fraction is not silently cut.
fn whole<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match object.is_instance_of::<PyFloat>() {
        true if object.extract::<f64>()?.fract() != 0.0 => Err(invalid("a fraction")),
        true => object.call_method0("__int__"),
        false => object.call_method0("item"),
    }
}

/// A number in words. One with more digits behind the point than there is room for is not silently rounded.
fn decimal(object: &Bound<'_, PyAny>, scale: i8) -> PyResult<String> {
    let text = object.str()?.to_string();
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction.trim_end_matches('0'));
    match fraction.len() > usize::try_from(scale).unwrap_or_default() && !text.contains(['e', 'E']) {
        true => Err(invalid("more digits")),
        false => Ok(text),
    }
}

fn text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(object.cast::<PyString>()?.to_string())
}

/// Dates, times, instants and lengths are counted in the finest unit that Python has, then cast. Numbers are
/// taken as ticks of the wanted unit, strings in ISO 8601.
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

fn days(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let date: NaiveDate = object.extract()?;
    Ok(date.signed_duration_since(NaiveDate::default()).num_days())
}

fn time_of_day(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let time: NaiveTime = object.extract()?;
    Ok(i64::from(time.num_seconds_from_midnight()) * 1_000_000 + i64::from(time.nanosecond() / 1_000))
}

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
        // A zone of the zoneinfo module has no fixed offset: Python itself converts.
        Err(_) => object.call_method1("astimezone", (chrono::Utc,))?.extract()?,
    };
    Ok(aware.timestamp_micros())
}

fn length(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    let length: chrono::Duration = object.extract()?;
    length.num_microseconds().ok_or_else(|| invalid("too long"))
}

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

fn structure(
    name: &str,
    objects: &[Bound<'_, PyAny>],
    fields: &arrow::datatypes::Fields,
) -> PyResult<ArrayRef> {
    let valid: Vec<bool> = objects.iter().map(|o| !o.is_none()).collect();
    let mut columns = Vec::new();
    for (position, field) in fields.iter().enumerate() {
        let cells = objects.iter().map(|object| part(object, field.name(), position));
        let cells = cells.collect::<PyResult<Vec<_>>>()?;
        columns.push(column(&format!("{name}.{}", field.name()), &cells, field.data_type())?);
    }
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, Some(valid.into())).or_raise()?))
}

/// A field of a dict, a row or any mapping, or of a tuple by position; absent is null.
fn part<'py>(object: &Bound<'py, PyAny>, name: &str, position: usize) -> PyResult<Bound<'py, PyAny>> {
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
