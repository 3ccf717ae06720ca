//! Errors, one variant for each remedy.

use crate::refusal::Refusal;
use datafusion::error::DataFusionError;
use std::fmt;
use whimbrel_plan::reword_value_error;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error, named by its remedy.
#[derive(Debug)]
pub enum Error {
    /// Change the statement or the call. [`whimbrel_sql::render`] shows the place in the text.
    Invalid(DataFusionError),
    /// Mend the rows: a key, a reference, a unique or a cardinality constraint is violated.
    Data(String),
    /// Rewrite the query or add what the refusal names: it has no bound.
    Unbounded(Box<Refusal>),
    /// Try again: the store is away. Of a write nobody knows whether it was made.
    Unavailable(String),
    /// Try again later: others wrote the same all the time, and what this call would write was not written;
    /// of several rows on a store that writes key by key, the message says how many were, and if some were
    /// it is not safe to repeat the statement.
    Conflict(String),
    /// Our bug, or a store that was damaged.
    Internal(String),
}

impl Error {
    /// An `Invalid` error with this message.
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::Invalid(DataFusionError::Plan(message.into()))
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Error {
        use DataFusionError as E;
        match error.find_root() {
            E::Plan(_) | E::SchemaError(..) | E::SQL(..) | E::NotImplemented(_) | E::Configuration(_) => {
                Error::Invalid(error)
            }
            E::Internal(_) => Error::Internal(error.strip_backtrace()),
            _ => Error::Data(in_words_of_sql(&error.strip_backtrace())),
        }
    }
}

/// A message of the engine about a value, with the names of types that SQL has.
fn in_words_of_sql(message: &str) -> String {
    let text = reword_value_error(message);
    let places = ["cannot be read as ", "is not in the range of ", "is too large for "];
    let place = places.iter().find_map(|place| text.find(place).map(|at| at + place.len()));
    let Some((before, of)) = place.map(|at| text.split_at(at)) else { return text };
    let name = of.split('(').next().unwrap_or(of);
    let known = match name {
        "Int8" => "TINYINT",
        "Int16" => "SMALLINT",
        "Int32" => "INTEGER",
        "Int64" => "BIGINT",
        "Float32" => "REAL",
        "Float64" => "DOUBLE",
        "Boolean" => "BOOLEAN",
        "Date32" => "DATE",
        "Decimal128" => "DECIMAL",
        "Timestamp" => "TIMESTAMP",
        _ => return text,
    };
    // The unit of an instant says nothing to a user.
    let rest = if name == "Timestamp" { "" } else { &of[name.len()..] };
    format!("{before}{known}{rest}")
}

impl From<datafusion::arrow::error::ArrowError> for Error {
    fn from(error: datafusion::arrow::error::ArrowError) -> Error {
        Error::from(DataFusionError::from(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid(error) => write!(f, "{}", whimbrel_sql::render(error, "")),
            Error::Data(text) | Error::Unavailable(text) | Error::Conflict(text) | Error::Internal(text) => {
                f.write_str(text)
            }
            Error::Unbounded(refusal) => write!(f, "{refusal}"),
        }
    }
}

impl std::error::Error for Error {}
