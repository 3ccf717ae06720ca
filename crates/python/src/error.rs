//! Errors of the engine as Python exceptions: one class a remedy (`whimbrel.errors`), with the message of the
//! error.
//!
//! An exception of a user's function passes through the engine in a [`PythonError`]. It is raised again: as
//! itself if it is an interrupt, else as the cause of a `DataError`.

use datafusion::error::DataFusionError;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PySystemExit};
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use std::fmt;
use whimbrel_plan::reword_value_error;
use whimbrel_sharded::error::ErrorKind;

/// A Python exception inside an error of the engine.
#[derive(Debug)]
pub struct PythonError {
    /// The beginning of the message. Without one, the exception itself is raised again.
    context: Option<String>,
    error: PyErr,
}

impl fmt::Display for PythonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.context {
            Some(context) => write!(f, "{context}: {}", self.error),
            None => write!(f, "{}", self.error),
        }
    }
}

impl std::error::Error for PythonError {}

impl PythonError {
    /// An error that is raised as a `DataError` with this exception as its cause.
    pub fn wrap(context: impl Into<String>, error: PyErr) -> DataFusionError {
        DataFusionError::External(Box::new(PythonError { context: Some(context.into()), error }))
    }

    /// An error that is raised as this exception.
    pub fn pass(error: PyErr) -> DataFusionError {
        DataFusionError::External(Box::new(PythonError { context: None, error }))
    }
}

/// The Python exception for an error of the engine.
pub fn raise(error: DataFusionError) -> PyErr {
    let message = message(&error);
    raise_with(error, message)
}

/// The Python exception for an error of the engine, with another message.
pub fn raise_with(error: DataFusionError, message: String) -> PyErr {
    Python::attach(|py| {
        if let Some(raised) = find_python_error(&error) {
            return reraise(py, raised);
        }
        let class = match ErrorKind::of(&error) {
            ErrorKind::Invalid => "InvalidError",
            ErrorKind::Data => "DataError",
            ErrorKind::ResourceExhausted => "ResourceExhaustedError",
            ErrorKind::Unavailable => "UnavailableError",
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

/// An exception of a class of `whimbrel.errors`, made with these arguments.
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

/// Makes a panic in any function, method or property of this module an `InternalError`.
///
/// PyO3 catches a panic at the boundary of the module, and raises its `PanicException`. That is no
/// `Exception`, so programs do not catch it. Python creates the exception by calling the class, whose
/// `__new__` is replaced here.
///
/// # Errors
/// `AttributeError` if the class cannot be changed.
pub fn panics_are_internal_errors(py: Python<'_>) -> PyResult<()> {
    let make = |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
        let payload = arguments.get_item(1).ok();
        // Python may normalize the exception, and then calls the class with it.
        if let Some(exception) = payload.as_ref().filter(|payload| payload.is_instance_of::<PyException>()) {
            return Ok(exception.clone().unbind());
        }
        let text = payload.map_or_else(String::new, |payload| payload.to_string());
        let error = of_class("InternalError", (panic_message(&text),));
        Ok(error.into_value(arguments.py()).into_any())
    };
    let make = PyCFunction::new_closure(py, Some(c"__new__"), None, make)?;
    py.get_type::<PanicException>().setattr("__new__", make)
}

/// The message for a panic.
fn panic_message(text: &str) -> String {
    format!("the engine panicked: {text}. This is a bug in Whimbrel: please report it")
}

/// The exception inside an error, or a `DataError` with it as the cause.
fn reraise(py: Python<'_>, raised: &PythonError) -> PyErr {
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

/// The exception inside an error. Errors of the engine nest: it may be at any depth.
fn find_python_error(error: &DataFusionError) -> Option<&PythonError> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(raised) = error.downcast_ref::<PythonError>() {
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

/// The message of an error, without the names of variants and without a backtrace.
fn message(error: &DataFusionError) -> String {
    use DataFusionError as E;
    match error {
        E::Context(context, inner) => format!("{context}: {}", message(inner)),
        E::Shared(inner) => message(inner),
        E::Diagnostic(_, inner) => message(inner),
        E::Collection(errors) => errors.iter().map(message).collect::<Vec<_>>().join("\n"),
        E::Internal(text) => {
            format!("{}. This is a bug in Whimbrel: please report it", without_backtrace(text))
        }
        E::Plan(text) | E::Execution(text) | E::Configuration(text) => without_backtrace(text),
        E::NotImplemented(text) | E::ResourcesExhausted(text) => without_backtrace(text),
        other => without_backtrace(&other.message()),
    }
}

/// The text before the backtrace, if there is one, without the engine's words for values.
fn without_backtrace(text: &str) -> String {
    reword_value_error(text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(text).trim_end())
}

/// The results of the engine as those of PyO3.
pub trait OrRaise<T> {
    /// Converts an error into its exception.
    ///
    /// # Errors
    /// The exception.
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
