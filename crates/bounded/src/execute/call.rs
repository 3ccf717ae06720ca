//! One call of a program: its arguments as columns, and where its page begins.

use super::executor::Executor;
use crate::arguments::{Argument, cast_argument, list_values, parameter_name};
use crate::cursor::Place;
use crate::error::{Error, Result};
use crate::plan::ParameterType;
use crate::store::Store;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::ScalarValue;

/// One call of a program.
pub(crate) struct Call<'a> {
    /// The store.
    pub store: &'a dyn Store,
    /// How requests are sent.
    pub executor: Executor,
    /// The parameters as columns of one row; list parameters are null there.
    pub values: Vec<ArrayRef>,
    /// The values of the parameters that are lists.
    pub lists: Vec<Option<ArrayRef>>,
    /// Where the page begins.
    pub place: Option<Place>,
}

impl<'a> Call<'a> {
    /// Checks arguments against parameters.
    ///
    /// # Errors
    /// `Invalid` if there are too few or too many arguments, or one does not fit its parameter.
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
                    call.values.push(cast_argument(value, parameter, at)?.to_array()?);
                    call.lists.push(None);
                }
                (Argument::Many(values), Some(most)) => {
                    if values.len() as u64 > most {
                        return Err(Error::invalid(format!(
                            "parameter {} is a list of at most {most} values, and {} were given",
                            parameter_name(parameter, at),
                            values.len()
                        )));
                    }
                    call.values.push(ScalarValue::try_from(&parameter.of)?.to_array()?);
                    let values = list_values(values, parameter, at)?;
                    let list = match values.is_empty() {
                        true => datafusion::arrow::array::new_empty_array(&parameter.of),
                        false => ScalarValue::iter_to_array(values)?,
                    };
                    call.lists.push(Some(list));
                }
                (Argument::One(_), Some(_)) => {
                    return Err(Error::invalid(format!(
                        "parameter {} is a list",
                        parameter_name(parameter, at)
                    )));
                }
                (Argument::Many(_), None) => {
                    return Err(Error::invalid(format!(
                        "parameter {} is one value; a list is written in (? limit 50)",
                        parameter_name(parameter, at)
                    )));
                }
            }
        }
        Ok(call)
    }
}
