//! Moving rows between shards (quill.txt §3.2, §3.3): the sending end.
//!
//! Invariants: where a row goes depends on the row, on its place among those of its producer, and on the
//! plan; rows of one producer reach each target in the order in which they were produced; a punctuation goes
//! to every target. One movement, one file. The receiving end is [`Gather`](crate::merge::Gather) for
//! streams, turn by turn for relations.

mod broadcast;
mod multicast;
mod redistribute;
mod reshard;

use datafusion::common::{DFSchema, Result};
use std::ops::Range;
use whimbrel_plan::nodes::{Exchange, Movement, Scope};
use whimbrel_temporal::Batch;

/// Sends the rows of one producer to their targets.
pub trait Spread: Send {
    /// Puts the rows of a batch into the parts of the targets; `parts` is as long as there are targets, and
    /// empty. The batch is compact.
    fn spread(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()>;
}

/// The movement of an exchange, for one of its producers. None: what leads from a channel to the next stage's
/// channel of the same number. `ends` says whether end edges may come.
pub fn spread(
    exchange: Option<&Exchange>,
    producer: usize,
    schema: &DFSchema,
    ends: bool,
) -> Result<Box<dyn Spread>> {
    let Some(exchange) = exchange else {
        return Ok(Box::new(broadcast::Broadcast));
    };
    Ok(match &exchange.movement {
        Movement::ReDistribute { key } => Box::new(redistribute::ReDistribute::new(key, schema)?),
        Movement::ReShard if ends => Box::new(reshard::ReShardEdges),
        Movement::ReShard => Box::new(reshard::ReShard::new(producer)),
        Movement::Broadcast => Box::new(broadcast::Broadcast),
        Movement::Multicast { to } => Box::new(multicast::Multicast::new(to, schema)?),
    })
}

/// Between which channels an edge leads.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    producers: usize,
    consumers: usize,
    /// How many groups the edge stays within.
    groups: usize,
}

impl Reach {
    /// The reach of an exchange between so many channels, whose producers are in so many groups.
    pub fn of(exchange: Option<&Exchange>, producers: usize, consumers: usize, groups: usize) -> Reach {
        let groups = match exchange.map(|e| e.scope) {
            None => producers,
            Some(Scope::Local) => groups,
            Some(Scope::Global) => 1,
        };
        Reach { producers, consumers, groups }
    }

    /// The consumers that a producer can reach: its targets.
    pub fn targets(&self, producer: usize) -> Range<usize> {
        let each = self.consumers / self.groups;
        let group = producer / (self.producers / self.groups);
        group * each..(group + 1) * each
    }

    /// The producers that can reach a consumer.
    pub fn sources(&self, consumer: usize) -> Range<usize> {
        let each = self.producers / self.groups;
        let group = consumer / (self.consumers / self.groups);
        group * each..(group + 1) * each
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_sources_agree() {
        for (producers, consumers, groups) in
            [(1, 1, 1), (4, 4, 2), (4, 2, 2), (2, 6, 2), (3, 5, 1), (4, 4, 4)]
        {
            let reach = Reach { producers, consumers, groups };
            for producer in 0..producers {
                for consumer in 0..consumers {
                    let there = reach.targets(producer).contains(&consumer);
                    assert_eq!(there, reach.sources(consumer).contains(&producer));
                    assert_eq!(there, producer * groups / producers == consumer * groups / consumers);
                }
            }
        }
    }
}
