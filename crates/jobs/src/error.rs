//! Errors of files, sorted by their remedy.

use datafusion::common::DataFusionError;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// The error, with the path of the file.
pub fn in_file(path: &Path, error: impl Into<Error>) -> DataFusionError {
    let error = error.into();
    let message = format!("`{}`: {error}", path.display());
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DataFusionError::ResourcesExhausted(message),
        _ => DataFusionError::Execution(message),
    }
}
