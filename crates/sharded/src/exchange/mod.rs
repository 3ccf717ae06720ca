//! Exchanges, the sending end: rows move from producers to consumers (quill.txt §3.2, §3.3).
//!
//! Invariants: the consumer of a row depends on the row, on its position among the rows of its producer, and
//! on the plan; rows of one producer reach each consumer in the order in which they were produced; a
//! punctuation goes to every consumer. Each movement has a file of its own. The receiving end is
//! [`Gather`](crate::merge::Gather) for streams; relations read round-robin, or one producer after the other.
//!
//! So a producer that runs again sends every consumer the same rows in the same order.

mod broadcast;
mod multicast;
mod ranges;
mod redistribute;
mod reshard;
mod runs;
mod targets;
mod windows;

use datafusion::common::{DFSchema, Result};
use std::ops::Range;
use whimbrel_plan::nodes::{Exchange, Movement, Scope};
use whimbrel_temporal::Batch;

/// Partitions the rows of one producer among its consumers.
///
/// ```
/// use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use std::sync::Arc;
/// use whimbrel_sharded::exchange::partitioner;
/// use whimbrel_temporal::{Batch, Other};
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let rows = RecordBatch::try_from_iter([("n", column)])?;
/// let schema = rows.schema().try_into()?;
/// let batch = Batch::new(vec![0, 0, 0].into(), Other::Open, rows);
///
/// // Without an exchange, a producer has one consumer, which gets everything.
/// let mut parts = vec![None];
/// partitioner(None, 0, &schema, false)?.partition(batch, &mut parts)?;
/// assert_eq!(parts[0].as_ref().map(Batch::len), Some(3));
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub trait Partitioner: Send {
    /// Puts the rows of a compact batch into `parts`, one for each consumer; all are none before. A consumer
    /// without rows has none after it.
    ///
    /// # Errors
    /// Those of the expression that names the consumers of a row.
    fn partition(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()>;

    /// What decides where rows go beside these themselves, for a checkpoint; empty: nothing, or nothing that
    /// matters to the answer.
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Goes on from a saved state.
    ///
    /// # Errors
    /// `Execution` if it is the state of another exchange.
    fn restore(&mut self, _state: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// The partitioner of an exchange for one of its producers. Without an exchange, each channel has one
/// consumer: the channel of its own number. `ends` says whether end edges may come.
///
/// # Errors
/// `Plan` if an expression of the exchange cannot be evaluated over these columns.
pub fn partitioner(
    exchange: Option<&Exchange>,
    producer: usize,
    schema: &DFSchema,
    ends: bool,
) -> Result<Box<dyn Partitioner>> {
    let Some(exchange) = exchange else {
        return Ok(Box::new(broadcast::Broadcast));
    };
    Ok(match &*exchange.movement {
        Movement::ReDistribute { key } => Box::new(redistribute::ReDistribute::new(key, schema)?),
        // Rows in one shard all go there.
        Movement::InOrder => Box::new(broadcast::Broadcast),
        Movement::ReShard if ends => Box::new(reshard::ReShardEdges),
        Movement::ReShard => Box::new(reshard::ReShard::new(producer)),
        Movement::Runs { key } => Box::new(runs::Runs::new(key, schema)?),
        Movement::Broadcast => Box::new(broadcast::Broadcast),
        Movement::Multicast { to } => Box::new(multicast::Multicast::new(to, schema)?),
        Movement::Windows { size, offset } => Box::new(windows::Windows { size: *size, offset: *offset }),
        Movement::Ranges { by, bounds } => Box::new(ranges::Ranges::new(by, bounds, schema)?),
    })
}

/// Which producers of an edge reach which consumers.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    producers: usize,
    consumers: usize,
    /// How many equal parts producers and consumers are divided into; rows stay within their part.
    parts: usize,
}

impl Reach {
    /// The reach of an exchange whose producers run on so many machines. An exchange of global scope crosses
    /// these, one of local scope does not; no exchange stays within one channel.
    pub fn of(exchange: Option<&Exchange>, producers: usize, consumers: usize, machines: usize) -> Reach {
        let parts = match exchange.map(|e| e.scope) {
            None => producers,
            Some(Scope::Local) => machines,
            Some(Scope::Global) => 1,
        };
        Reach { producers, consumers, parts }
    }

    /// The consumers that a producer reaches.
    pub fn targets(&self, producer: usize) -> Range<usize> {
        let each = self.consumers / self.parts;
        let part = producer / (self.producers / self.parts);
        part * each..(part + 1) * each
    }

    /// The producers that reach a consumer.
    pub fn sources(&self, consumer: usize) -> Range<usize> {
        let each = self.producers / self.parts;
        let part = consumer / (self.consumers / self.parts);
        part * each..(part + 1) * each
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_sources_agree() {
        for (producers, consumers, parts) in
            [(1, 1, 1), (4, 4, 2), (4, 2, 2), (2, 6, 2), (3, 5, 1), (4, 4, 4)]
        {
            let reach = Reach { producers, consumers, parts };
            for producer in 0..producers {
                for consumer in 0..consumers {
                    let there = reach.targets(producer).contains(&consumer);
                    assert_eq!(there, reach.sources(consumer).contains(&producer));
                    assert_eq!(there, producer * parts / producers == consumer * parts / consumers);
                }
            }
        }
    }
}
