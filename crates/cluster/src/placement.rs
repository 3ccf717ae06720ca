//! Placement: which worker runs which channel, at first and after workers were lost.
//!
//! Pure functions of what is known, so that whoever decides decides alike.

use crate::records::ChannelRecord;
use std::collections::{BTreeMap, BTreeSet};
use whimbrel_sharded::runtime::Topology;

/// The workers that channels can be given to: their names, and how many threads each has.
pub type Workers = BTreeMap<String, u32>;

/// Places the channels of a new job. Channels of one number are placed together, whatever their stage, so
/// that rows that stay in their shard stay on their worker.
pub fn place(topology: &Topology, workers: &Workers) -> Vec<ChannelRecord> {
    let slots: Vec<&String> = slots(workers);
    let place = |channel: usize| ChannelRecord {
        worker: slots[channel % slots.len()].clone(),
        attempt: 0,
        ended: false,
    };
    topology.channels().iter().map(|id| place(id.channel)).collect()
}

/// The names of the workers, each as often as it has threads, in turns: neighbours are on different workers.
fn slots(workers: &Workers) -> Vec<&String> {
    let rounds = workers.values().copied().max().unwrap_or(1).max(1);
    let round = |round: u32| workers.iter().filter(move |(_, threads)| (**threads).max(1) > round);
    (0..rounds).flat_map(round).map(|(name, _)| name).collect()
}

/// The channels that have to run again because their workers are lost, with their new places.
///
/// A channel that was lost is needed if a consumer of it has not ended, or has to run again itself; or if it
/// has a shard of the result. Lost channels that nobody needs stay as they are.
pub fn replace(
    topology: &Topology,
    result: &BTreeSet<usize>,
    channels: &[ChannelRecord],
    workers: &Workers,
) -> BTreeMap<usize, ChannelRecord> {
    let mut replaced = BTreeMap::new();
    let mut load: BTreeMap<&String, usize> = workers.keys().map(|worker| (worker, 0)).collect();
    for record in channels.iter().filter(|record| !record.ended) {
        load.entry(&record.worker).and_modify(|load| *load += 1);
    }
    // Consumers have higher numbers than their producers.
    for (channel, record) in channels.iter().enumerate().rev() {
        let is_needed = |consumer: usize| !channels[consumer].ended || replaced.contains_key(&consumer);
        let consumers = topology.edges(channel).iter().flat_map(|edge| &edge.targets);
        let mut consumers = consumers.map(|queue| topology.queues()[*queue].consumer);
        let is_lost = !workers.contains_key(&record.worker);
        if is_lost && (result.contains(&channel) || consumers.any(is_needed)) {
            let Some((worker, load)) = load.iter_mut().min_by_key(|(_, load)| **load) else { continue };
            *load += 1;
            let worker = (*worker).clone();
            replaced.insert(channel, ChannelRecord { worker, attempt: record.attempt + 1, ended: false });
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;
    use whimbrel_plan::nodes::Scope;
    use whimbrel_plan::{Series, Source, Stream};
    use whimbrel_sharded::Options;
    use whimbrel_sharded::program::Programs;

    /// Two channels that read, and three that each of them sends to.
    fn topology() -> Topology {
        let numbers = Series::new("n", 0, 10, 1, true).unwrap().with_shards(2).unwrap();
        let numbers = Stream::scan("numbers", numbers).unwrap();
        let moved = numbers.reshard(Some(3), Scope::Global).unwrap();
        Topology::of(&Programs::new(&moved, &Options::default()).unwrap())
    }

    fn workers(names: &[&str]) -> Workers {
        names.iter().map(|name| (name.to_string(), 1)).collect()
    }

    #[test]
    fn channels_of_one_number_are_together() {
        let places = place(&topology(), &workers(&["a", "b"]));
        let names: Vec<&str> = places.iter().map(|place| place.worker.as_str()).collect();
        assert_eq!(names, ["a", "b", "a", "b", "a"]);
        let more = BTreeMap::from([("a".to_string(), 2), ("b".to_string(), 1)]);
        assert_eq!(slots(&more), ["a", "b", "a"]);
    }

    #[test]
    fn what_is_lost_and_needed_runs_again() {
        let (topology, result) = (topology(), BTreeSet::from([2, 3, 4]));
        let mut channels = place(&topology, &workers(&["a", "b"]));
        let lost = |channels: &[ChannelRecord]| {
            replace(&topology, &result, channels, &workers(&["b", "c"])).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(lost(&channels), [0, 2, 4]);
        channels[0].ended = true;
        assert_eq!(lost(&channels), [0, 2, 4], "what it had sent is gone");
        channels.iter_mut().for_each(|channel| channel.ended = true);
        assert_eq!(lost(&channels), [0, 2, 4], "the shards 0 and 2 of the result are gone");
        channels[2].worker = "b".into();
        channels[4].worker = "c".into();
        assert_eq!(lost(&channels), [] as [usize; 0], "nobody reads any more what channel 0 had sent");
        channels[4].ended = false;
        let replaced = replace(&topology, &result, &channels, &workers(&["b", "c"]));
        let expected = ChannelRecord { worker: "b".into(), attempt: 1, ended: false };
        assert_eq!(replaced, BTreeMap::from([(0, expected)]), "b does less");
    }
}
