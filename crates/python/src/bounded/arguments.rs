//! The values of the parameters of a statement, by place and by name as in a Python call.
//!
//! Every parameter has exactly one value, and every value a parameter. A value has the type of its column;
//! numbers for decimal columns stay as they are written, so that the engine can round or refuse them.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};
use whimbrel_bounded::Argument;
use whimbrel_bounded::plan::ParameterType;
use whimbrel_plan::names::nearest;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use crate::error::invalid;
use crate::{types, values};

/// The values of these parameters.
///
/// # Errors
/// `InvalidError` if a value is missing, has no parameter, or is of another type.
pub fn bind(
    parameters: &[ParameterType],
    by_place: &Bound<'_, PyTuple>,
    by_name: &Bound<'_, PyDict>,
) -> PyResult<Vec<Argument>> {
    if by_place.len() > parameters.len() {
        return Err(invalid(format!(
            "the statement has {} parameters, and {} values were given",
            parameters.len(),
            by_place.len()
        )));
    }
    check_names(parameters, by_place.len(), by_name)?;
    let value = |(at, parameter): (usize, &ParameterType)| {
        let given = match &parameter.name {
            _ if at < by_place.len() => Some(by_place.get_item(at)?),
            Some(name) => by_name.get_item(name)?,
            None => None,
        };
        match given {
            Some(given) => argument(&given, parameter, at),
            None => Err(invalid(format!("there is no value for parameter {}", shown(parameter, at)))),
        }
    };
    parameters.iter().enumerate().map(value).collect()
}

/// Checks that a statement without parameters has no values.
///
/// # Errors
/// `InvalidError` if it has some.
pub fn none(by_place: &Bound<'_, PyTuple>, by_name: &Bound<'_, PyDict>) -> PyResult<()> {
    bind(&[], by_place, by_name).map(|_| ())
}

/// Checks that every name is that of a parameter without a value by place.
fn check_names(parameters: &[ParameterType], by_place: usize, by_name: &Bound<'_, PyDict>) -> PyResult<()> {
    let names: Vec<&str> = parameters.iter().filter_map(|parameter| parameter.name.as_deref()).collect();
    for name in by_name.keys() {
        let name: String = name.extract()?;
        match parameters.iter().position(|parameter| parameter.name.as_deref() == Some(&name)) {
            Some(at) if at < by_place => {
                return Err(invalid(format!("parameter :{name} was given by its place already")));
            }
            Some(_) => {}
            None => {
                let hint = match nearest(&name, &names).first() {
                    Some(near) => format!("did you mean :{near}?"),
                    None if names.is_empty() => "it has no parameters with names".to_string(),
                    None => format!("there are :{}", names.join(", :")),
                };
                return Err(invalid(format!("the statement has no parameter :{name}; {hint}")));
            }
        }
    }
    Ok(())
}

/// The value of a parameter: one, or a list.
fn argument(given: &Bound<'_, PyAny>, parameter: &ParameterType, at: usize) -> PyResult<Argument> {
    let scalar = |object: &Bound<'_, PyAny>| {
        if let Some(number) = number(object, &parameter.of)? {
            return Ok(number);
        }
        let object = uuid_value(object, &parameter.of)?;
        values::literal(&object, Some(&parameter.of)).map_err(|_| {
            let wanted = types::name(&parameter.of);
            invalid(format!(
                "parameter {} takes {wanted}, and {} does not fit",
                shown(parameter, at),
                values::show(&object)
            ))
        })
    };
    let single = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
    match (parameter.list, given.try_iter()) {
        (Some(_), Ok(items)) if !single => {
            let items = items.map(|item| scalar(&item?)).collect::<PyResult<_>>()?;
            Ok(Argument::Many(items))
        }
        (Some(_), _) => Err(invalid(format!(
            "parameter {} is a list, and {} is none",
            shown(parameter, at),
            values::show(given)
        ))),
        (None, _) => scalar(given).map(Argument::One),
    }
}

/// A number for a decimal or integer column, unchanged: the engine rounds or compares it, depending on its
/// use. Others are written as values of the column.
fn number(object: &Bound<'_, PyAny>, of: &DataType) -> PyResult<Option<ScalarValue>> {
    let is_decimal = object.get_type().name()?.to_cow()? == "Decimal";
    if is_decimal && (of.is_decimal() || of.is_integer()) && object.call_method0("is_finite")?.is_truthy()? {
        let text: String = object.call_method1("__format__", ("f",))?.extract()?;
        return Ok(Some(ScalarValue::from(text)));
    }
    if !of.is_decimal() || object.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Some(ScalarValue::Float64(Some(float.value()))).filter(|_| float.value().is_finite()));
    }
    Ok(match object.is_instance_of::<PyInt>() {
        true => Some(ScalarValue::from(object.str()?.to_string())),
        false => None,
    })
}

/// A UUID as text or as sixteen bytes, depending on its column. Other objects stay.
fn uuid_value<'py>(object: &Bound<'py, PyAny>, of: &DataType) -> PyResult<Bound<'py, PyAny>> {
    let class = object.get_type();
    if class.name()?.to_cow()? != "UUID" {
        return Ok(object.clone());
    }
    match of {
        DataType::Binary => object.getattr("bytes"),
        _ => Ok(object.str()?.into_any()),
    }
}

/// The name of a parameter in a message: `:name`, or its number.
fn shown(parameter: &ParameterType, at: usize) -> String {
    parameter.name.as_ref().map_or_else(|| format!("{}", at + 1), |name| format!(":{name}"))
}
