//! Explains queries, with estimates, and analyzes them, with measurements: the stages as one tree, from the
//! result down, with the rows and the time of every operator and the rows and bytes that moved between
//! shards.

mod tree;

pub use tree::{Explained, Line};

use crate::options::{Options, ResultShards};
use crate::program::Programs;
use crate::runtime::{Job, Sink, run_programs};
use datafusion::common::Result;
use std::sync::Arc;
use std::time::Instant;
use whimbrel_plan::Stream;

/// Explains a query: the tree of its operators with estimates.
///
/// # Errors
/// `Plan` if the query cannot be cut into stages.
pub fn explain(stream: &Stream, options: &Options) -> Result<Explained> {
    tree::explain(&Programs::instrumented(stream, &merged(options))?, None)
}

/// A query that runs to be analyzed; its rows are counted and dropped.
pub struct Analysis {
    programs: Arc<Programs>,
    job: Arc<Job>,
    since: Instant,
}

/// Starts a query to analyze it.
///
/// # Errors
/// As [`run`](crate::run).
pub fn analyze(stream: &Stream, options: &Options) -> Result<Analysis> {
    let programs = Arc::new(Programs::instrumented(stream, &merged(options))?);
    let sinks = (0..stream.properties().shards).map(|_| -> Sink { Box::new(|_| Ok(())) });
    let since = Instant::now();
    let job = Arc::new(run_programs(&programs, options, sinks.collect())?);
    Ok(Analysis { programs, job, since })
}

/// The options of a query whose result becomes one table.
fn merged(options: &Options) -> Options {
    Options { shards: ResultShards::Merged, ..options.clone() }
}

impl Analysis {
    /// The query, as a job.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// Waits for the end; the tree of operators with measurements.
    ///
    /// # Errors
    /// The first error of the query.
    pub fn wait(&self) -> Result<Explained> {
        self.job.wait()?;
        tree::explain(&self.programs, Some(self.since.elapsed()))
    }
}
