//! Casts that change no value.

use arrow::array::{Array, ArrayRef, AsArray, StructArray, new_null_array};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Fields, Float64Type};
use arrow::util::display::array_value_to_string;
use pyo3::prelude::*;
use std::sync::Arc;

use crate::error::{OrRaise, invalid};
use crate::types;

/// Casts a column to a type that has all of its values. Floats may be rounded to a narrower float type.
///
/// # Errors
/// `InvalidError` with the first value that the type does not have.
pub fn cast_exactly(name: &str, column: &ArrayRef, to: &DataType) -> PyResult<ArrayRef> {
    let from = column.data_type();
    if from == to {
        return Ok(Arc::clone(column));
    }
    if let (DataType::Struct(_), DataType::Struct(fields)) = (from, to) {
        return cast_struct(name, column, fields);
    }
    let wrong = |error: &dyn std::fmt::Display| {
        invalid(format!("column \"{name}\": not a {}: {error}", types::name(to)))
    };
    let options = CastOptions { safe: false, ..Default::default() };
    let cast = |column: &ArrayRef, to| cast_with_options(column, to, &options).map_err(|error| wrong(&error));
    let converted = cast(column, to)?;
    let lost = match (from.is_floating(), to.is_floating()) {
        (true, true) => first_overflow(column, &converted)?,
        _ if is_comparable(from) && is_comparable(to) => {
            let lost = distinct(&cast(&converted, from)?, column).or_raise()?;
            lost.values().set_indices().next()
        }
        _ => None,
    };
    match lost {
        None => Ok(converted),
        Some(row) => {
            let value = array_value_to_string(column, row).or_raise()?;
            Err(wrong(&format!("{value} would be another value")))
        }
    }
}

/// Whether values of the type can be cast to another one and back to be compared.
fn is_comparable(kind: &DataType) -> bool {
    kind.is_numeric() || kind.is_temporal() || *kind == DataType::Boolean
}

/// The first row whose finite float became an infinite one.
fn first_overflow(from: &ArrayRef, to: &ArrayRef) -> PyResult<Option<usize>> {
    let [from, to] = [from, to].map(|floats| cast(floats, &DataType::Float64).or_raise());
    let (from, to) = (from?, to?);
    let (from, to) = (from.as_primitive::<Float64Type>(), to.as_primitive::<Float64Type>());
    Ok((0..from.len())
        .find(|&row| from.is_valid(row) && from.value(row).is_finite() && to.value(row).is_infinite()))
}

/// Casts a struct field by field, by their names. A field that is absent is null.
fn cast_struct(name: &str, column: &ArrayRef, fields: &Fields) -> PyResult<ArrayRef> {
    let from = column.as_struct();
    let known: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    if let Some(extra) = from.column_names().into_iter().find(|name| !known.contains(name)) {
        return Err(unknown_field(name, extra, &known));
    }
    let columns = fields.iter().map(|field| match from.column_by_name(field.name()) {
        Some(column) => cast_exactly(&format!("{name}.{}", field.name()), column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), from.len())),
    });
    let columns = columns.collect::<PyResult<Vec<_>>>()?;
    let structs =
        StructArray::try_new_with_length(fields.clone(), columns, from.nulls().cloned(), from.len());
    Ok(Arc::new(structs.or_raise()?))
}

/// The error for a field that a struct does not have.
pub fn unknown_field(column: &str, extra: &str, known: &[&str]) -> PyErr {
    invalid(format!(
        "column \"{column}\": the field \"{extra}\" is none of the type's: {}; leave it out, or give it a type \
         in the schema",
        known.join(", ")
    ))
}
