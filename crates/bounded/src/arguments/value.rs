//! One argument: a value or a list, checked against its parameter and cast to its type.
//!
//! A number that the type of its parameter cannot hold is rounded where it is stored. Where it is compared,
//! the statement is compiled with the number itself; see `number`.

use crate::error::{Error, Result};
use crate::number::{Number, NumberPosition};
use crate::plan::ParameterType;
use datafusion::common::ScalarValue;

/// A value for a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// One value.
    One(ScalarValue),
    /// The values of a list.
    Many(Vec<ScalarValue>),
}

impl<T: Into<ScalarValue>> From<T> for Argument {
    fn from(value: T) -> Argument {
        Argument::One(value.into())
    }
}

impl Argument {
    /// The values of a list.
    pub fn list<T: Into<ScalarValue>>(values: impl IntoIterator<Item = T>) -> Argument {
        Argument::Many(values.into_iter().map(Into::into).collect())
    }
}

/// The values of a list, as the column that they are looked for in has them; the others are not there.
pub(crate) fn list_values(
    values: &[ScalarValue],
    parameter: &ParameterType,
    at: usize,
) -> Result<Vec<ScalarValue>> {
    let found = values.iter().filter_map(|value| {
        match Number::of(value).and_then(|number| number.position(&parameter.of)) {
            Some(NumberPosition::Exact(value)) => Some(Ok(value)),
            Some(_) => None,
            None => Some(cast_argument(value, parameter, at)),
        }
    });
    found.collect()
}

/// Numbers that are given for parameters whose type cannot hold them, with the places of these.
pub(crate) fn out_of_range(types: &[ParameterType], given: &[Argument]) -> Vec<(usize, Number)> {
    let all = types.iter().zip(given).enumerate();
    let found = all.filter_map(|(at, (parameter, argument))| {
        let Argument::One(value) = argument else { return None };
        let number = Number::of(value)?;
        (!matches!(number.position(&parameter.of)?, NumberPosition::Exact(_))).then_some((at, number))
    });
    found.collect()
}

/// The value as its parameter has it: a number is rounded, as it is where it is stored.
pub(crate) fn cast_argument(
    value: &ScalarValue,
    parameter: &ParameterType,
    at: usize,
) -> Result<ScalarValue> {
    if value.data_type() == parameter.of {
        return Ok(value.clone());
    }
    let wrong = || {
        Error::invalid(format!(
            "parameter {} takes {}, and {value} does not fit",
            parameter_name(parameter, at),
            parameter.of
        ))
    };
    if let Some(number) = Number::of(value)
        && number.position(&parameter.of).is_some()
    {
        return number.nearest(&parameter.of).ok_or_else(wrong);
    }
    let cast = value.cast_to(&parameter.of).map_err(|_| wrong())?;
    if cast.is_null() && !value.is_null() {
        return Err(wrong());
    }
    Ok(cast)
}

/// How messages name a parameter: `:name`, or its number.
pub(crate) fn parameter_name(parameter: &ParameterType, at: usize) -> String {
    parameter.name.as_ref().map_or_else(|| format!("{}", at + 1), |name| format!(":{name}"))
}
