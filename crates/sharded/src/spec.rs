//! Job specifications: all that another process has to know to run channels of the same query.

use crate::options::{Memory, Options, Output};
use crate::program::Programs;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use whimbrel_plan::{References, Stream};

/// A query with what its answer is computed with.
///
/// Every process that has the specification makes the same programs of it, with the same descriptions.
/// Its digest names the job: states and tapes of one digest belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The plan with its frozen sources, as bytes.
    #[serde(with = "serde_bytes")]
    plan: Vec<u8>,
    batch_rows: u64,
    output: Output,
    memory: Memory,
    /// The release that made it.
    engine: String,
}

impl JobSpec {
    /// The specification of a query that is run with these options.
    ///
    /// # Errors
    /// `Plan` if the plan cannot be written as bytes, with the reason.
    pub fn of(stream: &Stream, options: &Options, references: &Arc<dyn References>) -> Result<JobSpec> {
        Ok(JobSpec {
            plan: stream.to_bytes(references)?,
            batch_rows: options.batch_rows as u64,
            output: options.output,
            memory: options.memory,
            engine: env!("CARGO_PKG_VERSION").to_string(),
        })
    }

    /// The programs of its channels.
    ///
    /// # Errors
    /// `Plan` if another release made it, or the plan cannot be cut into stages; `Execution` if a file of
    /// the plan has changed.
    pub fn programs(&self, references: &Arc<dyn References>) -> Result<Programs> {
        let engine = env!("CARGO_PKG_VERSION");
        if self.engine != engine {
            return plan_err!("release {} made this job, and this is {engine}", self.engine);
        }
        Programs::new(&self.stream(references)?, &self.options())
    }

    /// The query.
    ///
    /// # Errors
    /// `Plan` if its bytes are no plan.
    pub fn stream(&self, references: &Arc<dyn References>) -> Result<Stream> {
        Stream::from_bytes(&self.plan, references)
    }

    /// What its channels are run with.
    pub fn options(&self) -> Options {
        Options {
            batch_rows: usize::try_from(self.batch_rows).unwrap_or(usize::MAX),
            output: self.output,
            memory: self.memory,
            ..Options::default()
        }
    }

    /// The name of the job.
    ///
    /// # Errors
    /// As [`to_bytes`](JobSpec::to_bytes).
    pub fn digest(&self) -> Result<[u8; 32]> {
        Ok(*blake3::hash(&self.to_bytes()?).as_bytes())
    }

    /// The specification as bytes.
    ///
    /// # Errors
    /// `Plan` if it cannot be encoded.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        postcard::to_stdvec(self).map_err(|error| plan_datafusion_err!("{error}"))
    }

    /// The specification of bytes.
    ///
    /// # Errors
    /// `Plan` if they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<JobSpec> {
        postcard::from_bytes(bytes).map_err(|error| plan_datafusion_err!("no job specification: {error}"))
    }
}
