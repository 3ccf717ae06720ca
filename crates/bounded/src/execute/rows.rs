//! Rows between two steps, and what a call was given.

use super::Executor;
use crate::cursor::Place;
use crate::error::{Error, Result};
use crate::numbers::{Among, Number};
use crate::plan::ParameterType;
use crate::store::Store;
use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use datafusion::arrow::compute::{concat, filter, take};
use datafusion::common::ScalarValue;

/// Columns of one length; there may be none.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub columns: Vec<ArrayRef>,
    pub len: usize,
}

impl Rows {
    /// One row without columns.
    pub fn unit() -> Rows {
        Rows { columns: vec![], len: 1 }
    }

    pub fn take(&self, places: &UInt32Array) -> Result<Rows> {
        let columns = self.columns.iter().map(|column| take(column, places, None));
        Ok(Rows { columns: columns.collect::<std::result::Result<_, _>>()?, len: places.len() })
    }

    pub fn filter(&self, keep: &BooleanArray) -> Result<Rows> {
        let columns = self.columns.iter().map(|column| filter(column, keep));
        Ok(Rows { columns: columns.collect::<std::result::Result<_, _>>()?, len: keep.true_count() })
    }

    pub fn first(&self, rows: usize) -> Rows {
        self.slice(0, rows.min(self.len))
    }

    pub fn slice(&self, from: usize, len: usize) -> Rows {
        Rows { columns: self.columns.iter().map(|column| column.slice(from, len)).collect(), len }
    }

    /// Rows of the same columns, one behind the other.
    pub fn concat(all: &[Rows]) -> Result<Option<Rows>> {
        let Some(first) = all.first() else { return Ok(None) };
        let columns = (0..first.columns.len()).map(|at| {
            let parts: Vec<&dyn datafusion::arrow::array::Array> =
                all.iter().map(|rows| rows.columns[at].as_ref()).collect();
            concat(&parts)
        });
        let len = all.iter().map(|rows| rows.len).sum();
        Ok(Some(Rows { columns: columns.collect::<std::result::Result<_, _>>()?, len }))
    }
}

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

/// One call of a program.
pub(crate) struct Call<'a> {
    pub store: &'a dyn Store,
    pub executor: Executor,
    /// The parameters as columns of one row; those that are lists are there as null.
    pub values: Vec<ArrayRef>,
    /// The values of the parameters that are lists.
    pub lists: Vec<Option<ArrayRef>>,
    /// Where the page begins.
    pub place: Option<Place>,
}

impl<'a> Call<'a> {
    /// Checks what was given against the parameters.
    pub fn new(
        store: &'a dyn Store,
        executor: Executor,
        types: &[ParameterType],
        given: &[Argument],
        place: Option<Place>,
    ) -> Result<Call<'a>> {
        if types.len() != given.len() {
            return Err(Error::invalid(format!(
                "the statement has {} parameters, and {} values were given",
                types.len(),
                given.len()
            )));
        }
        let mut call = Call { store, executor, values: vec![], lists: vec![], place };
        for (at, (parameter, argument)) in types.iter().zip(given).enumerate() {
            match (argument, parameter.list) {
                (Argument::One(value), None) => {
                    call.values.push(typed(value, parameter, at)?.to_array()?);
                    call.lists.push(None);
                }
                (Argument::Many(values), Some(most)) => {
                    if values.len() as u64 > most {
                        return Err(Error::invalid(format!(
                            "parameter {} is a list of at most {most} values, and {} were given",
                            shown(parameter, at),
                            values.len()
                        )));
                    }
                    call.values.push(ScalarValue::try_from(&parameter.of)?.to_array()?);
                    let values = held(values, parameter, at)?;
                    let list = match values.is_empty() {
                        true => datafusion::arrow::array::new_empty_array(&parameter.of),
                        false => ScalarValue::iter_to_array(values)?,
                    };
                    call.lists.push(Some(list));
                }
                (Argument::One(_), Some(_)) => {
                    return Err(Error::invalid(format!("parameter {} is a list", shown(parameter, at))));
                }
                (Argument::Many(_), None) => {
                    return Err(Error::invalid(format!(
                        "parameter {} is one value; a list is written in (? limit 50)",
                        shown(parameter, at)
                    )));
                }
            }
        }
        Ok(call)
    }
}

/// The values of a list, as the column that they are looked for in has them; the others are not there.
pub(crate) fn held(values: &[ScalarValue], parameter: &ParameterType, at: usize) -> Result<Vec<ScalarValue>> {
    let found = values.iter().filter_map(|value| {
        match Number::of(value).and_then(|number| number.among(&parameter.of)) {
            Some(Among::At(value)) => Some(Ok(value)),
            Some(_) => None,
            None => Some(typed(value, parameter, at)),
        }
    });
    found.collect()
}

/// Numbers that are given for parameters whose type cannot hold them, with the places of these.
pub(crate) fn beyond(types: &[ParameterType], given: &[Argument]) -> Vec<(usize, Number)> {
    let all = types.iter().zip(given).enumerate();
    let found = all.filter_map(|(at, (parameter, argument))| {
        let Argument::One(value) = argument else { return None };
        let number = Number::of(value)?;
        (!matches!(number.among(&parameter.of)?, Among::At(_))).then_some((at, number))
    });
    found.collect()
}

/// The value as its parameter has it: a number is rounded, as it is where it is stored.
pub(crate) fn typed(value: &ScalarValue, parameter: &ParameterType, at: usize) -> Result<ScalarValue> {
    if value.data_type() == parameter.of {
        return Ok(value.clone());
    }
    let wrong = || {
        Error::invalid(format!(
            "parameter {} takes {}, and {value} does not fit",
            shown(parameter, at),
            parameter.of
        ))
    };
    if let Some(number) = Number::of(value)
        && number.among(&parameter.of).is_some()
    {
        return number.nearest(&parameter.of).ok_or_else(wrong);
    }
    let cast = value.cast_to(&parameter.of).map_err(|_| wrong())?;
    if cast.is_null() && !value.is_null() {
        return Err(wrong());
    }
    Ok(cast)
}

fn shown(parameter: &ParameterType, at: usize) -> String {
    parameter.name.as_ref().map_or_else(|| format!("{}", at + 1), |name| format!(":{name}"))
}
