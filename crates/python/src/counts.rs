//! Numbers of things: rows, shards.

use pyo3::prelude::*;

use crate::error::invalid;
use crate::values;

/// How many there are to be: a whole number that is not negative.
pub struct Count(pub usize);

impl<'py> FromPyObject<'_, 'py> for Count {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Count> {
        object.extract().map(Count).map_err(|_| {
            let shown = values::show(&object);
            invalid(format!(
                "{shown} is no count: a whole number that is not negative is wanted, and none too large"
            ))
        })
    }
}
