//! Sinks: where the results of a job go.
//!
//! A sink takes whole epochs, and keeps the number of the last one together with the rows, in one commit.
//! So it can say after any crash which epochs it has, and the job leaves these out when it computes them
//! again.

mod callback;
mod folder;
mod postgres;

use crate::store::Access;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result, plan_err};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use callback::CallbackSink;
pub use folder::{FolderFormat, FolderSink};
pub use postgres::PostgresSink;

/// A run of a job, as its sink sees it.
#[derive(Debug, Clone)]
pub struct Run {
    /// The number of the job.
    pub job: String,
    /// How often the job has been begun; a later run has a higher number.
    pub generation: u64,
    /// The columns of the result.
    pub schema: SchemaRef,
    /// Set when the job is to stop: what does not answer is not asked again then.
    pub is_stopped: Arc<AtomicBool>,
}

/// Takes the results of a job.
pub trait Sink: Send {
    /// Takes the sink over: runs of a lower generation cannot commit any more. The last epoch that was
    /// committed; none if the job has committed nothing here.
    ///
    /// # Errors
    /// `Plan` if the sink has results of another job, or cannot hold these columns; `Execution` if it
    /// cannot be reached.
    fn open(&mut self, run: &Run) -> Result<Option<u64>>;

    /// Takes rows of the epochs behind the last commit. Nobody sees them yet.
    ///
    /// # Errors
    /// `Execution` if they cannot be written.
    fn write(&mut self, rows: &RecordBatch) -> Result<()>;

    /// Commits all that was written, as the epochs up to this one: all of it or nothing.
    ///
    /// # Errors
    /// `Execution` if it cannot be committed, or a later run of the job has taken the sink over.
    fn commit(&mut self, epoch: u64) -> Result<()>;

    /// Whether an epoch should be committed at once. At checkpoints all are.
    fn is_due(&self) -> bool {
        true
    }
}

/// The sink at a location: a folder, here or in an object store, or `postgres://…?table=name`.
///
/// # Errors
/// `Plan` if there is no sink of this kind.
pub fn open(location: &str, format: Option<FolderFormat>, access: Access) -> Result<Box<dyn Sink>> {
    match location.split_once("://").map(|(scheme, _)| scheme) {
        None | Some("file" | "s3" | "s3a" | "gs" | "az" | "azure" | "abfs" | "abfss") => {
            Ok(Box::new(FolderSink::new(location, format.unwrap_or_default()).with_access(access)))
        }
        Some("postgres" | "postgresql") if format.is_none() => Ok(Box::new(PostgresSink::new(location)?)),
        Some("postgres" | "postgresql") => plan_err!("a table of PostgreSQL has no format; leave it out"),
        Some("kafka") => plan_err!(
            "a topic of Kafka is written by a program in Python: stream.run_forever(\"kafka://…\", checkpoint=…)"
        ),
        Some(other) => plan_err!(
            "results cannot be written to {other}://…; give a folder, here or in an object store (s3://bucket/folder), \
             or postgres://user@host/database?table=name"
        ),
    }
}
