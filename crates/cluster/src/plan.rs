//! What all channels of a job share: their programs, and where they belong.

use crate::placement::Locations;
use crate::records::JobRecord;
use datafusion::common::Result;
use std::collections::BTreeSet;
use std::sync::Arc;
use whimbrel_plan::References;
use whimbrel_sharded::program::Programs;
use whimbrel_sharded::runtime::{LaneOrigin, Topology};
use whimbrel_sharded::{JobSpec, Options};

/// The plan of a job.
pub struct Plan {
    /// The name of the job.
    pub job: String,
    /// The programs of its channels.
    pub programs: Programs,
    /// The channels and their queues.
    pub topology: Topology,
    /// Where each channel belongs.
    pub locations: Locations,
    /// What its channels are run with.
    pub options: Options,
}

impl Plan {
    /// The plan of a specification; `cluster` is where it runs what has no location of its own.
    ///
    /// # Errors
    /// Those of the specification.
    pub fn of(
        job: &str,
        spec: &JobSpec,
        cluster: Option<&str>,
        references: &Arc<dyn References>,
    ) -> Result<Plan> {
        let programs = spec.programs(references)?;
        let topology = Topology::of(&programs);
        let stages = &programs.stages().stages;
        let location = |stage: usize| stages[stage].location.as_deref().or(cluster).map(str::to_string);
        let locations = topology.channels().iter().map(|id| location(id.stage)).collect();
        Ok(Plan { job: job.to_string(), programs, topology, locations, options: spec.options() })
    }

    /// The plan of a job in the store.
    ///
    /// # Errors
    /// As [`of`](Plan::of).
    pub fn read(
        job: &str,
        record: &JobRecord,
        spec: &[u8],
        references: &Arc<dyn References>,
    ) -> Result<Plan> {
        Plan::of(job, &JobSpec::from_bytes(spec)?, record.cluster.as_deref(), references)
    }

    /// The channels that make the shards of the result.
    pub fn result(&self) -> BTreeSet<usize> {
        self.topology.channels_of(self.programs.stages().result.0).collect()
    }

    /// Whether rows become events somewhere, and some may come too late.
    pub fn has_ingress(&self) -> bool {
        let stages = &self.programs.stages().stages;
        stages.iter().flat_map(|stage| &stage.inputs).any(|input| input.ingress.is_some())
    }

    /// The channels that read what a channel sends.
    pub fn consumers(&self, channel: usize) -> impl Iterator<Item = usize> + '_ {
        let queues = self.topology.edges(channel).iter().flat_map(|edge| &edge.targets);
        queues.map(|queue| self.topology.queues()[*queue].consumer)
    }

    /// The channels that a channel reads.
    pub fn producers(&self, channel: usize) -> impl Iterator<Item = usize> + '_ {
        self.topology.lanes(channel).iter().filter_map(|lane| match lane {
            LaneOrigin::Queue(queue) => Some(self.topology.queues()[*queue].producer),
            LaneOrigin::Source { .. } => None,
        })
    }
}
