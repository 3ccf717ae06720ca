//! The Arrow type of a column of Python objects.
//!
//! It depends on all objects: integers whose last value is 0.5 are a column of floats. Two types without a
//! common one are an error that names both.

use arrow::datatypes::{DataType, Field, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::*;

use super::objects::{key, nanoseconds, of_library, show};
use crate::error::invalid;
use crate::types;

/// The smallest type that holds all objects; `Null` if all are `None`.
///
/// # Errors
/// `InvalidError` if there is no such type, or an object is too deep.
pub fn infer(name: &str, objects: &[Bound<'_, PyAny>]) -> PyResult<DataType> {
    common_type(name, objects, 0)
}

/// The type of objects that are inside of so many others.
fn common_type(name: &str, objects: &[Bound<'_, PyAny>], depth: usize) -> PyResult<DataType> {
    let mut common = DataType::Null;
    for (row, object) in objects.iter().enumerate() {
        let found = type_of(name, object, depth)?;
        if found == common || found == DataType::Null {
            continue;
        }
        common = unify(&common, &found).ok_or_else(|| {
            invalid(format!(
                "column \"{name}\": row {row} holds a {} where the rows before hold {}; make them one type or give \
                 a schema",
                types::name(&found),
                types::name(&common)
            ))
        })?;
    }
    Ok(common)
}

/// The type of one object, which is inside of so many others. An object that contains itself is inside of
/// any number.
fn type_of(name: &str, object: &Bound<'_, PyAny>, depth: usize) -> PyResult<DataType> {
    if depth > types::MAX_DEPTH {
        let column = name.split('.').next().unwrap_or(name);
        return Err(invalid(format!(
            "column \"{column}\": lists and dicts are more than {} deep inside one another, or one contains \
             itself; give such a value as text, e.g. as JSON",
            types::MAX_DEPTH
        )));
    }
    Ok(if object.is_none() || is_missing_time(object)? {
        DataType::Null
    } else if object.is_instance_of::<PyBool>() {
        DataType::Boolean
    } else if object.is_instance_of::<PyInt>() {
        if object.extract::<i64>().is_err() { DataType::UInt64 } else { DataType::Int64 }
    } else if object.is_instance_of::<PyFloat>() {
        DataType::Float64
    } else if object.is_instance_of::<PyString>() {
        DataType::Utf8
    } else if object.is_instance_of::<PyBytes>() {
        DataType::Binary
    } else if object.is_instance_of::<PyDateTime>() {
        refuse_nanoseconds(name, object)?;
        let zone = if object.getattr("tzinfo")?.is_none() { None } else { Some("UTC".into()) };
        DataType::Timestamp(TimeUnit::Microsecond, zone)
    } else if object.is_instance_of::<PyDate>() {
        DataType::Date32
    } else if object.is_instance_of::<PyTime>() {
        DataType::Time64(TimeUnit::Microsecond)
    } else if object.is_instance_of::<PyDelta>() {
        refuse_nanoseconds(name, object)?;
        DataType::Duration(TimeUnit::Microsecond)
    } else if let Ok(items) = object.cast::<PyDict>() {
        struct_type(name, items, depth + 1)?
    } else if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items = object.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        DataType::new_list(common_type(name, &items, depth + 1)?, true)
    } else {
        return library_type(name, object, depth);
    })
}

/// Whether this is `NaT` of pandas, an instance of `datetime` that is no time.
fn is_missing_time(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.is_instance_of::<PyDateTime>()
        && !object.is_exact_instance_of::<PyDateTime>()
        && object.get_type().name()? == "NaTType")
}

/// The type of a dict.
fn struct_type(name: &str, items: &Bound<'_, PyDict>, depth: usize) -> PyResult<DataType> {
    let fields = items.iter().map(|(field, value)| {
        let key = key(&field)?;
        let data_type = type_of(&format!("{name}.{key}"), &value, depth)?;
        Ok(Field::new(key, data_type, true))
    });
    Ok(DataType::Struct(fields.collect::<PyResult<Vec<_>>>()?.into()))
}

/// The type of an object of a library: a decimal, or a scalar of NumPy, whose `item()` is Python's.
fn library_type(name: &str, object: &Bound<'_, PyAny>, depth: usize) -> PyResult<DataType> {
    let class = object.get_type().name()?.to_string();
    if let Some(converted) = of_library(object) {
        return type_of(name, &converted, depth);
    }
    if matches!(class.as_str(), "datetime64" | "timedelta64") {
        return Err(too_fine(name, object));
    }
    if class == "Decimal" {
        let exponent: i64 = object.call_method0("as_tuple")?.getattr("exponent")?.extract().unwrap_or(0);
        return Ok(DataType::Decimal128(38, (-exponent).clamp(0, 38) as i8));
    }
    if let Ok(item) = object.call_method0("item")
        && !item.get_type().is(object.get_type())
    {
        return type_of(name, &item, depth + 1);
    }
    Err(invalid(format!(
        "column \"{name}\": a {class} is no value for a column; use a Python number, string, date, …"
    )))
}

/// Refuses a timestamp or duration of pandas with parts of a microsecond, which the type that it gets lacks.
fn refuse_nanoseconds(name: &str, object: &Bound<'_, PyAny>) -> PyResult<()> {
    match nanoseconds(object) {
        0 => Ok(()),
        _ => Err(too_fine(name, object)),
    }
}

/// The error for an instant or a duration that has no type of its own.
fn too_fine(name: &str, object: &Bound<'_, PyAny>) -> PyErr {
    invalid(format!(
        "column \"{name}\": {} has parts of a microsecond, or is out of reach of Python's dates; give the column \
         a type in the schema, e.g. \"timestamp[ns]\", or give it as an Arrow or polars table",
        show(object)
    ))
}

/// The smallest type that holds the values of both, if there is one.
fn unify(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::*;
    Some(match (left, right) {
        (Null, other) | (other, Null) => other.clone(),
        (a, b) if a == b => a.clone(),
        (Int64 | UInt64 | Float64, Float64) | (Float64, Int64 | UInt64) => Float64,
        (Int64, UInt64) | (UInt64, Int64) => UInt64,
        (Decimal128(_, a), Decimal128(_, b)) => Decimal128(38, *a.max(b)),
        (Decimal128(p, s), Int64) | (Int64, Decimal128(p, s)) => Decimal128(*p, *s),
        (Date32, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32) => Timestamp(*unit, zone.clone()),
        (List(a), List(b)) => DataType::new_list(unify(a.data_type(), b.data_type())?, true),
        (Struct(a), Struct(b)) => {
            let mut fields: Vec<Field> = a.iter().map(|f| f.as_ref().clone()).collect();
            for field in b {
                match fields.iter_mut().find(|f| f.name() == field.name()) {
                    Some(other) => {
                        *other = Field::new(other.name(), unify(other.data_type(), field.data_type())?, true)
                    }
                    None => fields.push(field.as_ref().clone()),
                }
            }
            Struct(fields.into())
        }
        _ => return None,
    })
}
