//! Jobs that survive, from what a face of the engine knows: a plan, a place for its state, a place for
//! results.

use crate::references::PlanReferences;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, plan_err};
use std::sync::Arc;
use std::time::Duration;
use whimbrel_jobs::sink::{self, CallbackSink, FolderFormat, Sink};
use whimbrel_jobs::store::Access;
use whimbrel_jobs::{DurableJob, JobOptions, start};
use whimbrel_plan::{References, Stream};
use whimbrel_sharded::Options;

/// Where the results of a job go.
pub enum Destination {
    /// A folder, in this format, or a table of PostgreSQL, by its URL.
    Place(String, Option<FolderFormat>),
    /// A function, which is called with the number of an epoch and rows of it.
    Callback(Box<dyn FnMut(u64, RecordBatch) -> Result<()> + Send>),
    /// A sink of one's own.
    Sink(Box<dyn Sink>),
}

/// Begins a job, or goes on with the one whose state is there.
///
/// # Errors
/// As [`whimbrel_jobs::start`].
pub fn start_job(
    stream: &Stream,
    options: &Options,
    job: &JobOptions,
    to: Destination,
) -> Result<DurableJob> {
    let references: Arc<dyn References> = Arc::new(PlanReferences);
    start(stream, options, job, &references, |store| match to {
        Destination::Place(place, format) => sink::open(&place, format, Access::Exclusive),
        Destination::Callback(callback) => {
            Ok(Box::new(CallbackSink::new(callback, Arc::clone(store))) as Box<dyn Sink>)
        }
        Destination::Sink(sink) => Ok(sink),
    })
}

/// The format of this name.
///
/// # Errors
/// `Plan` if results are not written in it.
pub fn folder_format(name: &str) -> Result<FolderFormat> {
    match name {
        "parquet" => Ok(FolderFormat::Parquet),
        "arrow" => Ok(FolderFormat::Arrow),
        other => plan_err!("results are written as parquet or arrow, not as {other:?}"),
    }
}

/// A duration of the clock on the wall, such as `10s`.
///
/// # Errors
/// `Plan` if it is none, or negative.
pub fn wall_duration(length: &whimbrel_plan::Duration, name: &str) -> Result<Duration> {
    use datafusion::arrow::datatypes::{DataType, TimeUnit};
    let nanos = length.ticks(&DataType::Timestamp(TimeUnit::Nanosecond, None), name)?;
    match u64::try_from(nanos) {
        Ok(nanos) => Ok(Duration::from_nanos(nanos)),
        Err(_) => plan_err!("{name}: a duration before now; give 0s or more"),
    }
}
