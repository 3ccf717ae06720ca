//! What the channels of a job share, and what becomes of each.

use datafusion::common::{DataFusionError, Result};
use std::collections::BTreeSet;
use std::sync::Arc;
use whimbrel_plan::References;
use whimbrel_sharded::program::Programs;
use whimbrel_sharded::runtime::Topology;
use whimbrel_sharded::{JobSpec, Options};

/// What all channels of a job share.
pub struct Plan {
    /// The name of the job.
    pub job: String,
    /// The programs of its channels.
    pub programs: Programs,
    /// The channels and their queues.
    pub topology: Topology,
    /// What its channels are run with.
    pub options: Options,
}

impl Plan {
    /// The plan of a specification.
    ///
    /// # Errors
    /// Those of the specification.
    pub fn of(job: &str, spec: &[u8], references: &Arc<dyn References>) -> Result<Plan> {
        let spec = JobSpec::from_bytes(spec)?;
        let programs = spec.programs(references)?;
        let topology = Topology::of(&programs);
        Ok(Plan { job: job.to_string(), programs, topology, options: spec.options() })
    }

    /// The channels that make the shards of the result.
    pub fn result(&self) -> BTreeSet<usize> {
        self.topology.channels_of(self.programs.stages().result.0).collect()
    }
}

/// A channel has ended here.
pub struct Finished {
    /// The job.
    pub job: String,
    /// The number of the channel.
    pub channel: usize,
    /// Which of its attempts it was.
    pub attempt: u32,
    /// Why it failed, if it did.
    pub failure: Option<DataFusionError>,
}
