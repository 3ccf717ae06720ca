//! Errors of the cluster, sorted by their remedy, and those that a job keeps.

use datafusion::common::DataFusionError;
use serde::{Deserialize, Serialize};
use whimbrel_control::Error;
use whimbrel_sharded::error::ErrorKind;

/// The error of a control store.
pub fn of_store(error: Error) -> DataFusionError {
    match error {
        Error::Invalid(text) => DataFusionError::Plan(text),
        other => DataFusionError::Execution(other.to_string()),
    }
}

/// The error of a thread that could not be started.
pub fn no_thread(error: std::io::Error) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!("no thread for the cluster: {error}"))
}

/// Why a job failed.
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
        Failure { kind: ErrorKind::of(error), message: message(error) }
    }

    /// The error that it was.
    pub fn error(&self) -> DataFusionError {
        let message = self.message.clone();
        match self.kind {
            ErrorKind::Invalid => DataFusionError::Plan(message),
            ErrorKind::Data => DataFusionError::Execution(message),
            ErrorKind::ResourceExhausted => DataFusionError::ResourcesExhausted(message),
            ErrorKind::Internal => DataFusionError::Internal(message),
        }
    }
}

/// The message of an error, without the names of its kinds.
fn message(error: &DataFusionError) -> String {
    match error {
        DataFusionError::Shared(error) => message(error),
        DataFusionError::Context(context, error) => format!("{context}: {}", message(error)),
        other => other.message().into_owned(),
    }
}
