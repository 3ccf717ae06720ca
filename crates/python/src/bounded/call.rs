//! Calls of a bounded database.
//!
//! Other threads of Python run while the store is asked. A panic in a call is an error like others, and
//! leaves the database usable.

use pyo3::prelude::*;
use whimbrel_bounded::Error;
use whimbrel_session::panic;

use super::refusal;
use crate::shutdown::detach;

/// Calls the database without the interpreter.
///
/// # Errors
/// The exception for the error of the call; `InternalError` if it panics.
pub fn call_detached<T: Send>(
    py: Python<'_>,
    sql: &str,
    call: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    let result = detach(py, || panic::catch(|| Ok(call())));
    result.map_err(Error::from).and_then(|result| result).map_err(|error| refusal::raise(error, sql))
}
