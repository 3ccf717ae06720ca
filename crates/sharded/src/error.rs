//! Errors, sorted by their remedy.
//!
//! The engine reports a `DataFusionError`; [`ErrorKind::of`] finds the remedy by its variant.

use datafusion::arrow::error::ArrowError;
use datafusion::error::{DataFusionError, Result};
use parquet::errors::ParquetError;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use whimbrel_plan::source::redacted;

pub use crate::unavailable::{is_unavailable, unavailable};

/// The remedy of an error.
///
/// ```
/// use datafusion::error::DataFusionError;
/// use whimbrel_sharded::error::ErrorKind;
///
/// let error = DataFusionError::Plan("there is no column `x`".to_string());
/// assert_eq!(ErrorKind::of(&error), ErrorKind::Invalid);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// Change the call or the query.
    Invalid,
    /// Mend the input.
    Data,
    /// Give more memory or disk, or ask for less.
    ResourceExhausted,
    /// Try again once the service answers.
    Unavailable,
    /// Nothing: it is our bug.
    Internal,
}

impl ErrorKind {
    /// The remedy of this error.
    pub fn of(error: &DataFusionError) -> ErrorKind {
        use DataFusionError as E;
        match error.find_root() {
            error if is_unavailable(error) => ErrorKind::Unavailable,
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

/// The remedy of an error of Arrow.
fn of_arrow(error: &ArrowError) -> ErrorKind {
    match error {
        ArrowError::MemoryError(_) => ErrorKind::ResourceExhausted,
        ArrowError::NotYetImplemented(_) => ErrorKind::Invalid,
        _ => ErrorKind::Data,
    }
}

/// An error that another process has reported, or will read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What has to be done about it.
    pub kind: ErrorKind,
    /// The message.
    pub message: String,
}

impl Failure {
    /// The failure that an error is.
    pub fn of(error: &DataFusionError) -> Failure {
        Failure { kind: ErrorKind::of(error), message: shortened(message(error)) }
    }

    /// The error that it was.
    pub fn error(&self) -> DataFusionError {
        let message = self.message.clone();
        match self.kind {
            ErrorKind::Invalid => DataFusionError::Plan(message),
            ErrorKind::Data => DataFusionError::Execution(message),
            ErrorKind::ResourceExhausted => DataFusionError::ResourcesExhausted(message),
            ErrorKind::Unavailable => unavailable(message),
            ErrorKind::Internal => DataFusionError::Internal(message),
        }
    }
}

/// So many bytes of a message travel: values within it can be as long as a row.
const MAX_MESSAGE: usize = 64 << 10;

/// A message, without its middle if it is too long.
fn shortened(message: String) -> String {
    if message.len() <= MAX_MESSAGE {
        return message;
    }
    let head = message.floor_char_boundary(MAX_MESSAGE / 2);
    let tail = message.ceil_char_boundary(message.len() - MAX_MESSAGE / 2);
    format!("{} … {}", &message[..head], &message[tail..])
}

/// The message of an error, without the names of its kinds.
fn message(error: &DataFusionError) -> String {
    match error {
        DataFusionError::Shared(error) => message(error),
        DataFusionError::Context(context, error) => format!("{context}: {}", message(error)),
        other => other.message().into_owned(),
    }
}

/// The error, with the path of the file.
pub(crate) fn in_file(path: &Path, error: impl Into<DataFusionError>) -> DataFusionError {
    in_place(&path.display(), error)
}

/// The error, with the place of the file, which may be a URL; what it has of secrets is left out.
pub fn in_place(place: &impl Display, error: impl Into<DataFusionError>) -> DataFusionError {
    let error = error.into();
    let message = redacted(&format!("`{place}`: {}", root_message(&error)));
    match is_unavailable(&error) {
        true => unavailable(message),
        false => DataFusionError::Execution(message),
    }
}

/// The message of the root error, without the prefix of its library.
fn root_message(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::ArrowError(error, _) => match error.as_ref() {
            ArrowError::CsvError(text)
            | ArrowError::ParseError(text)
            | ArrowError::JsonError(text)
            | ArrowError::IpcError(text)
            | ArrowError::ParquetError(text)
            | ArrowError::InvalidArgumentError(text)
            | ArrowError::IoError(text, _) => {
                text.strip_prefix("Parquet error: ").unwrap_or(text).to_string()
            }
            other => other.to_string(),
        },
        DataFusionError::ParquetError(error) => match error.as_ref() {
            ParquetError::General(text) | ParquetError::NYI(text) | ParquetError::EOF(text) => text.clone(),
            ParquetError::External(error) => error.to_string(),
            other => other.to_string(),
        },
        DataFusionError::IoError(error) => error.to_string(),
        other => other.message().to_string(),
    }
}

/// A panic of `what` as an error: it is our bug.
pub fn panicked(what: &str, panic: Box<dyn Any + Send>) -> DataFusionError {
    DataFusionError::Internal(format!("{what} panicked: {}", panic_message(&*panic)))
}

/// The message of a panic that was caught.
///
/// ```
/// use std::panic::catch_unwind;
/// use whimbrel_sharded::error::panic_message;
///
/// let panic = catch_unwind(|| panic!("no row {}", 7)).unwrap_err();
/// assert_eq!(panic_message(&*panic), "no row 7");
/// ```
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let message = panic.downcast_ref::<&str>().copied();
    message.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Runs a reader of bytes that may be damaged. Libraries panic on some damage: here that becomes an error of
/// the data.
///
/// ```
/// use whimbrel_sharded::error::untrusted;
///
/// let read = || -> datafusion::error::Result<u8> { panic!("a length that is none") };
/// assert!(untrusted(&"a file", read).unwrap_err().to_string().contains("a length that is none"));
/// ```
///
/// # Errors
/// Those of the reader, with the place; `Execution` if it panics.
pub fn untrusted<T>(place: &impl Display, read: impl FnOnce() -> Result<T>) -> Result<T> {
    // The reader is not used after a panic.
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Err(error)) if is_of_data_or_service(&error) && !names(&error, place) => {
            Err(in_place(place, error))
        }
        Ok(read) => read,
        Err(panic) => {
            let how = panic_message(&*panic);
            Err(DataFusionError::Execution(format!("`{place}`: it is damaged, or cannot be read: {how}")))
        }
    }
}

fn is_of_data_or_service(error: &DataFusionError) -> bool {
    matches!(ErrorKind::of(error), ErrorKind::Data | ErrorKind::Unavailable)
}

/// Whether the message names the place.
fn names(error: &DataFusionError, place: &impl Display) -> bool {
    error.to_string().contains(&place.to_string())
}
