//! The topology of a query: its channels, and the queues between them.
//!
//! Invariant: it is a function of the programs alone, so every process numbers channels and queues alike.

use crate::program::{ChannelId, Programs};
use crate::stage::Origin;
use std::ops::Range;

/// The number of a queue.
pub type QueueId = usize;

/// The channels of a query, stage after stage, and the queues between them.
///
/// ```
/// use std::sync::Arc;
/// use whimbrel_plan::nodes::Scope;
/// use whimbrel_plan::{Series, Stream};
/// use whimbrel_sharded::Options;
/// use whimbrel_sharded::program::Programs;
/// use whimbrel_sharded::runtime::Topology;
///
/// let numbers = Stream::scan("numbers", Arc::new(Series::new("n", 0, 10, 1, true)?))?;
/// let programs = Programs::new(&numbers.reshard(Some(2), Scope::Global)?, &Options::default())?;
/// let topology = Topology::of(&programs);
/// assert_eq!(topology.channels().len(), 3);
/// // From the channel that reads the numbers to each of the other two.
/// assert_eq!(topology.queues().iter().map(|queue| (queue.producer, queue.consumer)).collect::<Vec<_>>(), [
///     (0, 1),
///     (0, 2),
/// ]);
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Topology {
    channels: Vec<ChannelId>,
    queues: Vec<Queue>,
    /// The lanes of each channel, input after input.
    lanes: Vec<Vec<LaneOrigin>>,
    /// The edges out of each channel, in the order of the inputs that they lead to.
    edges: Vec<Vec<Edge>>,
    /// The number of each stage's first channel.
    first_channels: Vec<usize>,
}

/// A queue: what one channel sends to a lane of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// The number of the channel that fills it.
    pub producer: usize,
    /// The number of the channel that reads it.
    pub consumer: usize,
}

/// The queues from a channel to an input of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The output of the producer's stage.
    pub output: usize,
    /// The consumers' stage.
    pub stage: usize,
    /// The input of that stage.
    pub input: usize,
    /// The queue to each consumer that the producer reaches, in their order.
    pub targets: Vec<QueueId>,
}

/// Where the items of a lane come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneOrigin {
    /// The shard of the source of this input that has the channel's number in its stage.
    Source {
        /// The number of the input.
        input: usize,
    },
    /// A queue from another channel.
    Queue(QueueId),
}

impl Topology {
    /// The topology of the query of these programs.
    pub fn of(programs: &Programs) -> Topology {
        let stages = &programs.stages().stages;
        let first = stages.iter().scan(0, |sum, stage| Some(std::mem::replace(sum, *sum + stage.channels)));
        let ids = stages
            .iter()
            .enumerate()
            .flat_map(|(stage, graph)| (0..graph.channels).map(move |channel| ChannelId { stage, channel }));
        let channels: Vec<ChannelId> = ids.collect();
        let (lanes, edges) = (vec![vec![]; channels.len()], vec![vec![]; channels.len()]);
        let (first_channels, queues) = (first.collect(), vec![]);
        let mut topology = Topology { first_channels, channels, queues, lanes, edges };
        for (number, stage) in stages.iter().enumerate() {
            for (input, origin) in stage.inputs.iter().map(|input| &input.origin).enumerate() {
                match origin {
                    Origin::Scan(_) => topology.add_sources(number, input),
                    Origin::Edge { .. } => topology.connect(programs, number, input),
                }
            }
        }
        topology
    }

    /// Gives the channels of a stage the lanes of a source.
    fn add_sources(&mut self, stage: usize, input: usize) {
        self.channels_of(stage).for_each(|channel| self.lanes[channel].push(LaneOrigin::Source { input }));
    }

    /// Connects the channels of a stage to the producers of an input.
    fn connect(&mut self, programs: &Programs, number: usize, place: usize) {
        let input = &programs.stages().stages[number].inputs[place];
        let Origin::Edge { stage: from, output, .. } = &input.origin else { return };
        let reach = programs.reach(number, input);
        for producer in self.channels_of(*from) {
            let edge = Edge { output: *output, stage: number, input: place, targets: vec![] };
            self.edges[producer].push(edge);
        }
        for (index, consumer) in self.channels_of(number).enumerate() {
            for producer in reach.sources(index).map(|producer| self.first_channels[*from] + producer) {
                let queue = self.queues.len();
                self.queues.push(Queue { producer, consumer });
                self.lanes[consumer].push(LaneOrigin::Queue(queue));
                self.edges[producer].last_mut().into_iter().for_each(|edge| edge.targets.push(queue));
            }
        }
    }

    /// The channels; a channel's number is its place here.
    pub fn channels(&self) -> &[ChannelId] {
        &self.channels
    }

    /// The queues; a queue's number is its place here.
    pub fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// The lanes of a channel, by its number.
    pub fn lanes(&self, channel: usize) -> &[LaneOrigin] {
        &self.lanes[channel]
    }

    /// The edges out of a channel, by its number.
    pub fn edges(&self, channel: usize) -> &[Edge] {
        &self.edges[channel]
    }

    /// The numbers of the channels of a stage.
    pub fn channels_of(&self, stage: usize) -> Range<usize> {
        let end = self.first_channels.get(stage + 1).copied().unwrap_or(self.channels.len());
        self.first_channels[stage]..end
    }
}
