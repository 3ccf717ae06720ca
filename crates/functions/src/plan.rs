//! What all tasks of a query share, in every process: channels, queues, and the partitions of their objects.

use datafusion::common::Result;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use whimbrel_plan::References;
use whimbrel_plan::nodes::Movement;
use whimbrel_sharded::program::Programs;
use whimbrel_sharded::runtime::{Edge, LaneOrigin, QueueId, Topology};
use whimbrel_sharded::stage::Origin;
use whimbrel_sharded::{JobSpec, Options};

/// The plan of a query. A task is a channel of it, by its number.
pub struct Plan {
    /// The programs of its tasks.
    pub programs: Programs,
    /// The tasks and the queues between them.
    pub topology: Topology,
    /// What tasks are run with.
    pub options: Options,
}

/// What the object of a task has.
pub struct Layout {
    /// The partition of each queue that the task fills.
    pub queues: BTreeMap<QueueId, usize>,
    /// The queue whose messages a partition has. Others that read it get the same messages.
    pub writers: BTreeMap<QueueId, usize>,
    /// The partition of the shard of the result that it makes.
    pub result: Option<usize>,
    /// How many partitions there are.
    pub partitions: usize,
}

impl Plan {
    /// The plan of a specification.
    ///
    /// # Errors
    /// Those of the specification.
    pub fn of(spec: &JobSpec, references: &Arc<dyn References>) -> Result<Plan> {
        let programs = spec.programs(references)?;
        let topology = Topology::of(&programs);
        Ok(Plan { programs, topology, options: spec.options() })
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> usize {
        self.topology.channels().len()
    }

    /// The stage of a task.
    pub fn stage(&self, task: usize) -> usize {
        self.topology.channels()[task].stage
    }

    /// The tasks that make the shards of the result.
    pub fn result(&self) -> Range<usize> {
        self.topology.channels_of(self.programs.stages().result.0)
    }

    /// The queues that a task reads.
    pub fn inputs(&self, task: usize) -> impl Iterator<Item = QueueId> + '_ {
        self.topology.lanes(task).iter().filter_map(|lane| match lane {
            LaneOrigin::Queue(queue) => Some(*queue),
            LaneOrigin::Source { .. } => None,
        })
    }

    /// The partitions of the object of a task. What all consumers of an edge read is written once.
    pub fn layout(&self, task: usize) -> Layout {
        let mut layout =
            Layout { queues: BTreeMap::new(), writers: BTreeMap::new(), result: None, partitions: 0 };
        for edge in self.topology.edges(task) {
            let is_shared = self.is_broadcast(edge);
            for (place, queue) in edge.targets.iter().enumerate() {
                layout.queues.insert(*queue, layout.partitions);
                if place == 0 || !is_shared {
                    layout.writers.insert(*queue, layout.partitions);
                }
                layout.partitions += usize::from(!is_shared);
            }
            layout.partitions += usize::from(is_shared);
        }
        if self.result().contains(&task) {
            layout.result = Some(layout.partitions);
            layout.partitions += 1;
        }
        layout
    }

    /// Whether all consumers of an edge read the same.
    pub fn is_broadcast(&self, edge: &Edge) -> bool {
        match &self.programs.stages().stages[edge.stage].inputs[edge.input].origin {
            Origin::Edge { exchange: Some(exchange), .. } => {
                matches!(*exchange.movement, Movement::Broadcast) && edge.targets.len() > 1
            }
            _ => false,
        }
    }
}
