//! `broadcast`: every row to every target. Batches are shared, not copied. With a single target it is the way
//! straight on.

use super::Spread;
use datafusion::common::Result;
use whimbrel_temporal::Batch;

pub(super) struct Broadcast;

impl Spread for Broadcast {
    fn spread(&mut self, batch: Batch, parts: &mut [Option<Batch>]) -> Result<()> {
        parts.fill(Some(batch));
        Ok(())
    }
}
