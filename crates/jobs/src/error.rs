//! Errors of files, sorted by their remedy.

use datafusion::common::DataFusionError;
use std::fmt;
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

/// Another run of the job has written what this one was about to write.
#[derive(Debug)]
struct Overtaken(String);

impl fmt::Display for Overtaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Overtaken {}

/// The error of a run that finds a record of another one.
pub fn overtaken(message: String) -> DataFusionError {
    DataFusionError::External(Box::new(Overtaken(message)))
}

/// Whether a run has ended because another run of its job wrote at the same time. Whoever is sure to be the
/// one that runs the job begins it again, and goes on behind what the other has written.
pub fn is_overtaken(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::External(cause) if cause.is::<Overtaken>())
}
