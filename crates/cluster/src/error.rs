//! Errors of the cluster, sorted by their remedy.

use datafusion::common::DataFusionError;
use whimbrel_control::Error;
use whimbrel_sharded::error::unavailable;

/// The error of a control store.
pub fn of_store(error: Error) -> DataFusionError {
    match error {
        Error::Invalid(text) => DataFusionError::Plan(text),
        Error::Unavailable(text) => unavailable(text),
        Error::Damaged(text) => DataFusionError::Execution(text),
    }
}

/// The error of a thread that could not be started.
pub fn no_thread(error: std::io::Error) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!("no thread for the cluster: {error}"))
}
