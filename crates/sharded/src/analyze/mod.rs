//! What a query is expected to do, and what it did: its stages as one tree, from the result down, with the rows of
//! every operator, the rows and bytes that moved between shards, and the time.
//!
//! Operators are counted by an observer above each. It hands on what it sees and what filters are pushed down, so that
//! an observed plan does what the plan does.

mod tree;

pub use tree::{Explained, Line};

use crate::options::Options;
use crate::program::Programs;
use crate::runtime::{Job, Sink, run_programs};
use datafusion::common::Result;
use std::sync::Arc;
use std::time::Instant;
use whimbrel_plan::Stream;

/// What a query is expected to do.
///
/// # Errors
/// `Plan` if the query cannot be cut into stages.
pub fn explain(stream: &Stream, options: &Options) -> Result<Explained> {
    tree::explained(&Programs::instrumented(stream, options)?, None)
}

/// A query that runs to be analyzed; its rows are counted and thrown away.
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
    let programs = Arc::new(Programs::instrumented(stream, options)?);
    let sinks = (0..stream.properties().shards).map(|_| -> Sink { Box::new(|_| Ok(())) });
    let since = Instant::now();
    let job = Arc::new(run_programs(&programs, options, sinks.collect())?);
    Ok(Analysis { programs, job, since })
}

impl Analysis {
    /// The query.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// Waits for the end; what the query did.
    ///
    /// # Errors
    /// The first that happened while it ran.
    pub fn wait(&self) -> Result<Explained> {
        self.job.wait()?;
        tree::explained(&self.programs, Some(self.since.elapsed()))
    }
}
