//! Hands the result out: each shard to its sink as it becomes ready, or all shards to one sink in their
//! order.

use crate::bucket::Bucket;
use crate::carrier::Inputs;
use crate::protocol::Input;
use crossbeam_channel::Receiver;
use datafusion::common::Result;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::runtime::Handle;
use whimbrel_sharded::runtime::{Progress, ResultSinks, Sink, hand_out};

/// How many pieces of a shard are fetched at the same time.
const PARALLEL_READS: usize = 4;

/// The first pieces of so many shards are fetched before it is their turn.
const AHEAD: usize = 8;

/// A shard of the result: its number, and where it is; none: it has no rows.
pub type Shard = (usize, Option<Input>);

/// Hands out shards until none follow, or the query was cancelled.
///
/// # Errors
/// Those of the bucket and of the sinks.
pub fn deliver(
    shards: &Receiver<Shard>,
    sinks: ResultSinks,
    network: &Handle,
    bucket: &Arc<Bucket>,
    progress: &Progress,
) -> Result<()> {
    let open =
        |input: Option<Input>| Inputs::open(network, bucket, 1, input.into_iter().collect(), PARALLEL_READS);
    match sinks {
        ResultSinks::OfShards(mut sinks) => {
            for (shard, input) in shards.iter().take_while(|_| !progress.cancelled()) {
                deliver_shard(open(input)?, &mut sinks[shard], progress)?;
            }
        }
        ResultSinks::InOrder(mut sink) => {
            let mut shards = InOrder::new(shards, open);
            while !progress.cancelled()
                && let Some(shard) = shards.next()?
            {
                deliver_shard(shard, &mut sink, progress)?;
            }
        }
    }
    Ok(())
}

/// Hands out a shard.
fn deliver_shard(mut shard: Inputs, sink: &mut Sink, progress: &Progress) -> Result<()> {
    while let Some(message) = shard.next(0)?
        && hand_out(message, sink, progress)?
    {}
    Ok(())
}

/// Shards in the order of their numbers, whenever they come. Some are opened before it is their turn.
struct InOrder<'a, T, F> {
    shards: &'a Receiver<Shard>,
    open: F,
    /// Those that have come and are not open.
    ready: BTreeMap<usize, Option<Input>>,
    opened: VecDeque<T>,
    /// The number of the next one to open.
    next: usize,
}

impl<'a, T, F: Fn(Option<Input>) -> Result<T>> InOrder<'a, T, F> {
    fn new(shards: &'a Receiver<Shard>, open: F) -> Self {
        InOrder { shards, open, ready: BTreeMap::new(), opened: VecDeque::new(), next: 0 }
    }

    /// The next shard; waits for it. None if no more come.
    fn next(&mut self) -> Result<Option<T>> {
        loop {
            self.ready.extend(self.shards.try_iter());
            while self.opened.len() < AHEAD
                && let Some(input) = self.ready.remove(&self.next)
            {
                self.opened.push_back((self.open)(input)?);
                self.next += 1;
            }
            if let Some(first) = self.opened.pop_front() {
                return Ok(Some(first));
            }
            match self.shards.recv() {
                Ok((shard, input)) => self.ready.insert(shard, input),
                Err(_) => return Ok(None),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;

    #[test]
    fn shards_are_opened_in_their_order() {
        let shard = |start: u64| {
            let input = Input::Object { key: String::new(), tag: None, start, sections: vec![] };
            (start as usize, Some(input))
        };
        let (sender, receiver) = unbounded();
        let open = |input: Option<Input>| match input {
            Some(Input::Object { start, .. }) => Ok(start),
            _ => Ok(u64::MAX),
        };
        let mut shards = InOrder::new(&receiver, open);
        [2, 0].into_iter().for_each(|number| sender.send(shard(number)).unwrap());
        assert_eq!(shards.next().unwrap(), Some(0));
        [4, 3, 1].into_iter().for_each(|number| sender.send(shard(number)).unwrap());
        sender.send((5, None)).unwrap();
        drop(sender);
        let rest: Vec<u64> = std::iter::from_fn(|| shards.next().unwrap()).collect();
        assert_eq!(rest, [1, 2, 3, 4, u64::MAX]);
    }
}
