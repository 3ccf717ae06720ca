//! Hands the result out: each shard to its sink, as it becomes ready.

use crate::bucket::Bucket;
use crate::carrier::Inputs;
use crate::protocol::Input;
use crossbeam_channel::Receiver;
use datafusion::common::Result;
use std::sync::Arc;
use tokio::runtime::Handle;
use whimbrel_sharded::runtime::{Progress, Sink};
use whimbrel_temporal::Message;

/// How many pieces of a shard are fetched at the same time.
const PARALLEL_READS: usize = 4;

/// Hands out shards until none follow.
///
/// # Errors
/// Those of the bucket and of the sinks.
pub fn deliver(
    shards: &Receiver<(usize, Option<Input>)>,
    mut sinks: Vec<Sink>,
    network: &Handle,
    bucket: &Arc<Bucket>,
    progress: &Progress,
) -> Result<()> {
    for (shard, input) in shards {
        let mut inputs = Inputs::open(network, bucket, 1, input.into_iter().collect(), PARALLEL_READS)?;
        while let Some(message) = inputs.next(0)? {
            if progress.cancelled() {
                return Ok(());
            }
            if let Message::Batch(batch) = &message {
                progress.add_rows_out(batch.len() as u64);
            }
            sinks[shard](message)?;
        }
    }
    Ok(())
}
