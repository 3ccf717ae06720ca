//! `broadcast`: every row to every consumer. Batches are shared, not copied. With one consumer it forwards
//! everything.

use super::Partitioner;
use datafusion::common::Result;
use whimbrel_temporal::Batch;

/// Sends every batch to every consumer.
pub(super) struct Broadcast;

impl Partitioner for Broadcast {
    fn partition(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        parts.fill(Some(batch));
        Ok(())
    }
}
