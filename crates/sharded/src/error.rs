//! Errors, sorted by what is to be done about them.
//!
//! The engine speaks in `DataFusionError`; its variants are the remedies, and [`ErrorKind::of`] reads them.

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use std::any::Any;
use std::fmt::Display;
use std::path::Path;

/// What is to be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Change the call or the query.
    Invalid,
    /// Mend the input.
    Data,
    /// Give more memory or disk, or ask for less.
    ResourceExhausted,
    /// Nothing: it is our bug.
    Internal,
}

impl ErrorKind {
    /// The kind of this error.
    pub fn of(error: &DataFusionError) -> ErrorKind {
        use DataFusionError as E;
        match error.find_root() {
            E::Plan(_) | E::SchemaError(..) | E::Configuration(_) | E::SQL(..) | E::NotImplemented(_) => {
                ErrorKind::Invalid
            }
            E::ResourcesExhausted(_) => ErrorKind::ResourceExhausted,
            E::Internal(_) | E::ExecutionJoin(_) | E::Substrait(_) | E::Ffi(_) => ErrorKind::Internal,
            E::ArrowError(error, _) => of_arrow(error),
            E::Diagnostic(_, inner) => ErrorKind::of(inner),
            E::Collection(errors) => errors.first().map_or(ErrorKind::Internal, ErrorKind::of),
            _ => ErrorKind::Data,
        }
    }
}

fn of_arrow(error: &ArrowError) -> ErrorKind {
    match error {
        ArrowError::MemoryError(_) => ErrorKind::ResourceExhausted,
        ArrowError::NotYetImplemented(_) => ErrorKind::Invalid,
        _ => ErrorKind::Data,
    }
}

/// The same error, with the file it happened in.
pub(crate) fn in_file(path: &Path, error: impl Into<DataFusionError>) -> DataFusionError {
    let error = error.into();
    DataFusionError::Execution(format!("`{}`: {}", path.display(), error.strip_backtrace()))
}

/// The same for a place that need not be on this machine.
pub(crate) fn in_place(place: &impl Display, error: impl Into<DataFusionError>) -> DataFusionError {
    let error = error.into();
    DataFusionError::Execution(format!("`{place}`: {}", error.strip_backtrace()))
}

/// A panic as an error: it is our bug.
pub(crate) fn panicked(what: &str, panic: Box<dyn Any + Send>) -> DataFusionError {
    let message = panic.downcast_ref::<&str>().map(|s| s.to_string());
    let message = message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    DataFusionError::Internal(format!("{what} panicked: {message}"))
}
