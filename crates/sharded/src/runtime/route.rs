//! Routes: where the messages of a channel go.
//!
//! Invariants: an edge has one queue from each producer to each of its consumers, so messages between two
//! channels stay in order. Where consumers read round-robin, a producer sends every consumer a message
//! for each batch, an empty one if need be.

use super::lane::Item;
use super::topology::QueueId;
use crate::exchange::Partitioner;
use crate::metrics::EdgeMetrics;
use crate::options::Sink;
use datafusion::common::Result;
use std::sync::Arc;
use whimbrel_temporal::{Batch, Message};

/// The destinations of an output's messages.
#[derive(Default)]
pub(super) struct Outlet {
    pub routes: Vec<Route>,
    pub sink: Option<Sink>,
}

/// The way from one producer of an edge to its consumers.
pub(super) struct Route {
    partitioner: Box<dyn Partitioner>,
    /// The queue of each consumer.
    targets: Vec<QueueId>,
    /// The rows of the current batch for each consumer.
    parts: Vec<Option<Batch>>,
    /// Whether consumers without rows of a batch get an empty one.
    round_robin: bool,
    /// Counts what is sent, if that is measured.
    metrics: Option<Arc<EdgeMetrics>>,
}

impl Route {
    /// A route into these queues, which are read round-robin or by time.
    pub fn new(
        partitioner: Box<dyn Partitioner>,
        targets: Vec<QueueId>,
        round_robin: bool,
        metrics: Option<Arc<EdgeMetrics>>,
    ) -> Route {
        let parts = vec![None; targets.len()];
        Route { partitioner, round_robin: round_robin && targets.len() > 1, targets, parts, metrics }
    }

    /// Sends a message to its consumers.
    ///
    /// # Errors
    /// Those of the partitioner.
    pub fn send(&mut self, message: &Message, mut to: impl FnMut(QueueId, Item)) -> Result<()> {
        let batch = match message {
            Message::Punctuation(_) => {
                self.targets.iter().for_each(|queue| to(*queue, Item::Message(message.clone())));
                return Ok(());
            }
            Message::Batch(batch) => batch.clone().compact()?,
        };
        if batch.is_empty() {
            return Ok(());
        }
        let empty = batch.slice(0, 0);
        self.partitioner.partition(batch, &mut self.parts)?;
        for (queue, part) in self.targets.iter().zip(&mut self.parts) {
            match part.take() {
                Some(part) => {
                    self.metrics.iter().for_each(|metrics| metrics.add(&part.rows));
                    to(*queue, Item::Message(Message::Batch(part)));
                }
                None if self.round_robin => to(*queue, Item::Message(Message::Batch(empty.clone()))),
                None => {}
            }
        }
        Ok(())
    }

    /// The state of the partitioner, for a checkpoint.
    pub fn save(&self) -> Vec<u8> {
        self.partitioner.save()
    }

    /// Goes on from a saved state.
    ///
    /// # Errors
    /// `Execution` if it is the state of another exchange.
    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.partitioner.restore(state)
    }

    /// The queues of the consumers.
    pub fn targets(&self) -> &[QueueId] {
        &self.targets
    }
}
