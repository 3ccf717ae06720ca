//! Errors on their way to Python: one exception class a remedy (`whimbrel.errors`), the message as it was
//! written.
//!
//! An exception that a user's own function raised travels through the engine in a [`Raised`] and comes out
//! again: as itself if it was an interrupt, else as the cause of a `DataError`.

use datafusion::error::DataFusionError;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PySystemExit};
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use std::fmt;
use whimbrel_sharded::error::ErrorKind;

/// A Python exception inside an engine's error.
#[derive(Debug)]
pub struct Raised {
    /// What was being done, for the message; none if the exception is to come out as it is.
    context: Option<String>,
    error: PyErr,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.context {
            Some(context) => write!(f, "{context}: {}", self.error),
            None => write!(f, "{}", self.error),
        }
    }
}

impl std::error::Error for Raised {}

impl Raised {
    /// Carries an exception through the engine; it comes out as the cause of a `DataError`.
    pub fn wrap(context: impl Into<String>, error: PyErr) -> DataFusionError {
        DataFusionError::External(Box::new(Raised { context: Some(context.into()), error }))
    }

    /// Carries an exception through the engine; it comes out as it is.
    pub fn pass(error: PyErr) -> DataFusionError {
        DataFusionError::External(Box::new(Raised { context: None, error }))
    }
}

/// The Python exception for an engine's error.
pub fn raise(error: DataFusionError) -> PyErr {
    let message = message(&error);
    raise_with(error, message)
}

/// The same with another message.
pub fn raise_with(error: DataFusionError, message: String) -> PyErr {
    Python::attach(|py| {
        if let Some(raised) = find_raised(&error) {
            return reraise(py, raised);
        }
        let class = match ErrorKind::of(&error) {
            ErrorKind::Invalid => "InvalidError",
            ErrorKind::Data => "DataError",
            ErrorKind::ResourceExhausted => "ResourceExhaustedError",
            ErrorKind::Internal => "InternalError",
        };
        of_class(class, (message,))
    })
}

/// An `InvalidError` with this message.
pub fn invalid(message: impl Into<String>) -> PyErr {
    of_class("InvalidError", (message.into(),))
}

/// An `UnavailableError` with this message.
pub fn unavailable(message: impl Into<String>) -> PyErr {
    of_class("UnavailableError", (message.into(),))
}

/// The error of a class of `whimbrel.errors`, made with these arguments.
pub fn of_class<A>(class: &str, arguments: A) -> PyErr
where
    A: for<'py> PyCallArgs<'py>,
{
    let make = |py: Python<'_>| {
        let class = py.import("whimbrel.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1(arguments)?))
    };
    Python::attach(|py| make(py).unwrap_or_else(|failure| failure))
}

/// Sees to it that a panic comes out of every function, method and property of this module as an `InternalError`.
///
/// PyO3 catches a panic where it would leave the module, and raises its `PanicException`, which is no `Exception`:
/// nobody catches it. Python makes what is raised by calling the class, so that the class itself can give an error of
/// ours.
pub fn panics_are_internal_errors(py: Python<'_>) -> PyResult<()> {
    let make = |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        let what = arguments.get_item(1).ok();
        // Python may make the exception anew of the one that was made.
        if let Some(made) = what.as_ref().filter(|what| what.is_instance_of::<PyException>()) {
            return Ok(made.clone().unbind());
        }
        let what = what.map_or_else(String::new, |what| what.to_string());
        let error = of_class("InternalError", (panicked(&what),));
        Ok(error.into_value(arguments.py()).into_any())
    };
    let make = PyCFunction::new_closure(py, Some(c"__new__"), None, make)?;
    py.get_type::<PanicException>().setattr("__new__", make)
}

/// What is said of a panic.
fn panicked(what: &str) -> String {
    format!("the engine panicked: {what}. This is a bug in Whimbrel: please report it")
}

fn reraise(py: Python<'_>, raised: &Raised) -> PyErr {
    let error = raised.error.clone_ref(py);
    let interrupt =
        error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py);
    if raised.context.is_none() || interrupt {
        return error;
    }
    let outer = of_class("DataError", (raised.to_string(),));
    outer.set_cause(py, Some(error));
    outer
}

/// Engine errors nest (shared, external, with context); the exception may be at any depth.
fn find_raised(error: &DataFusionError) -> Option<&Raised> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(raised) = error.downcast_ref::<Raised>() {
            return Some(raised);
        }
        next = match error.downcast_ref::<DataFusionError>() {
            Some(DataFusionError::External(inner)) => Some(inner.as_ref()),
            Some(DataFusionError::Shared(inner)) => Some(inner.as_ref()),
            Some(DataFusionError::ArrowError(inner, _)) => Some(inner.as_ref()),
            _ => match error.downcast_ref::<arrow::error::ArrowError>() {
                Some(arrow::error::ArrowError::ExternalError(inner)) => Some(inner.as_ref()),
                _ => error.source(),
            },
        };
    }
    None
}

/// The message as it was written: without the names of the engine's error variants, without a backtrace.
fn message(error: &DataFusionError) -> String {
    use DataFusionError as E;
    match error {
        E::Context(context, inner) => format!("{context}: {}", message(inner)),
        E::Shared(inner) => message(inner),
        E::Diagnostic(_, inner) => message(inner),
        E::Collection(errors) => errors.iter().map(message).collect::<Vec<_>>().join("\n"),
        E::Internal(text) => format!("{}. This is a bug in Whimbrel: please report it", plain(text)),
        E::Plan(text) | E::Execution(text) | E::Configuration(text) => plain(text),
        E::NotImplemented(text) | E::ResourcesExhausted(text) => plain(text),
        other => plain(&other.message()),
    }
}

/// Without the backtrace that may follow.
fn plain(text: &str) -> String {
    text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(text).trim_end().to_string()
}

/// The engine's result as Python's.
pub trait OrRaise<T> {
    /// Turns an engine's error into the exception of its kind.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for datafusion::error::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(raise)
    }
}

impl<T> OrRaise<T> for Result<T, arrow::error::ArrowError> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| raise(error.into()))
    }
}
