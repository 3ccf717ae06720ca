//! Placement: which worker runs which channel, at first and after workers were lost.
//!
//! Pure functions of what is known, so that whoever decides decides alike.

use crate::records::ChannelRecord;
use datafusion::common::{Result, exec_err};
use std::collections::{BTreeMap, BTreeSet};
use whimbrel_sharded::program::ChannelId;
use whimbrel_sharded::runtime::Topology;

/// The workers of a virtual cluster that channels can be given to: their names, and how many threads each
/// has.
pub type Workers = BTreeMap<String, u32>;

/// The workers of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Pools {
    /// Those that are alive.
    pub alive: BTreeSet<String>,
    /// Those that can be given channels, by their virtual cluster; under none, those that belong to none.
    pub by_cluster: BTreeMap<Option<String>, Workers>,
}

impl Pools {
    /// The same without some workers.
    pub fn without<'a>(&self, workers: impl Iterator<Item = &'a String>) -> Pools {
        let mut pools = self.clone();
        for worker in workers {
            pools.alive.remove(worker);
            pools.by_cluster.values_mut().for_each(|pool| _ = pool.remove(worker));
        }
        pools
    }

    /// The same locations, without virtual clusters that have no workers, or were torn down.
    pub fn available(&self, locations: &Locations) -> Locations {
        let has_workers = |cluster: &&Option<String>| {
            self.by_cluster.get(*cluster).is_some_and(|workers| !workers.is_empty())
        };
        locations.iter().map(|location| Some(location).filter(has_workers).cloned().flatten()).collect()
    }

    /// The workers that can be given lost channels: those of the virtual cluster, or free ones if it has none
    /// or was torn down.
    fn for_recovery(&self, cluster: &Option<String>) -> Option<&Workers> {
        let of = |cluster| self.by_cluster.get(cluster).filter(|workers: &&Workers| !workers.is_empty());
        of(cluster).or_else(|| of(&None))
    }
}

/// Where each channel of a job belongs: a virtual cluster, or none.
pub type Locations = Vec<Option<String>>;

/// Places the channels of a new job. Channels of one number are placed together, whatever their stage, so
/// that rows that stay in their shard stay on their worker.
///
/// # Errors
/// `Execution` if a virtual cluster has no workers.
pub fn place(topology: &Topology, locations: &Locations, pools: &Pools) -> Result<Vec<ChannelRecord>> {
    let by_cluster = pools.by_cluster.iter().filter(|(_, workers)| !workers.is_empty());
    let slots: BTreeMap<_, _> = by_cluster.map(|(cluster, workers)| (cluster, slots(workers))).collect();
    let channels = topology.channels().iter().zip(locations);
    let place = |(id, location): (&ChannelId, &Option<String>)| match slots.get(location) {
        Some(slots) => {
            let worker = slots[id.channel % slots.len()].clone();
            Ok(ChannelRecord { worker, attempt: 0, ended: false })
        }
        None => no_workers(location.as_deref()),
    };
    channels.map(place).collect()
}

/// The error of a virtual cluster without workers.
fn no_workers<T>(cluster: Option<&str>) -> Result<T> {
    match cluster {
        Some(cluster) => exec_err!("the virtual cluster `{cluster}` has no workers; add some"),
        None => exec_err!(
            "there are no workers that belong to no virtual cluster; start one with `whimbrel worker`, or run \
             the query on a virtual cluster"
        ),
    }
}

/// The names of the workers, each as often as it has threads, in turns: neighbours are on different workers.
pub fn slots(workers: &Workers) -> Vec<&String> {
    let rounds = workers.values().copied().max().unwrap_or(1).max(1);
    let round = |round: u32| workers.iter().filter(move |(_, threads)| (**threads).max(1) > round);
    (0..rounds).flat_map(round).map(|(name, _)| name).collect()
}

/// What workers keep of the messages of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// All of them.
    All,
    /// Those that a consumer still needs, and the result: the job has ended.
    Result,
}

/// The channels that have to run again because what they have sent is lost, with their new places.
///
/// A channel that was lost is needed if a consumer of it has not ended, or has to run again itself; or if it
/// has a shard of the result. Lost channels that nobody needs stay as they are.
pub fn replace(
    topology: &Topology,
    result: &BTreeSet<usize>,
    locations: &Locations,
    kept: Kept,
    channels: &[ChannelRecord],
    pools: &Pools,
) -> BTreeMap<usize, ChannelRecord> {
    let mut replaced = BTreeMap::new();
    let mut load: BTreeMap<&String, usize> = pools.alive.iter().map(|worker| (worker, 0)).collect();
    for record in channels.iter().filter(|record| !record.ended) {
        load.entry(&record.worker).and_modify(|load| *load += 1);
    }
    // Consumers have higher numbers than their producers.
    for (channel, record) in channels.iter().enumerate().rev() {
        let is_needed = |consumer: usize| !channels[consumer].ended || replaced.contains_key(&consumer);
        let consumers = || {
            let targets = topology.edges(channel).iter().flat_map(|edge| &edge.targets);
            targets.map(|queue| topology.queues()[*queue].consumer)
        };
        let is_result = result.contains(&channel);
        // What a channel has sent is kept until its consumers have ended.
        let begins_again = |consumer: usize| channels[consumer].ended && replaced.contains_key(&consumer);
        let is_gone =
            !pools.alive.contains(&record.worker) || (kept == Kept::Result && consumers().any(begins_again));
        if is_gone && (is_result || consumers().any(is_needed)) {
            let pool = pools.for_recovery(&locations[channel]).into_iter().flat_map(BTreeMap::keys);
            let Some(worker) = pool.min_by_key(|worker| load.get(worker).copied().unwrap_or(0)) else {
                continue;
            };
            *load.entry(worker).or_default() += 1;
            let record = ChannelRecord { worker: worker.clone(), attempt: record.attempt + 1, ended: false };
            replaced.insert(channel, record);
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

    fn pools(names: &[&str]) -> Pools {
        let workers: Workers = names.iter().map(|name| (name.to_string(), 1)).collect();
        Pools { alive: workers.keys().cloned().collect(), by_cluster: BTreeMap::from([(None, workers)]) }
    }

    fn placed(topology: &Topology, names: &[&str]) -> Vec<ChannelRecord> {
        place(topology, &vec![None; 5], &pools(names)).unwrap()
    }

    #[test]
    fn channels_of_one_number_are_together() {
        let places = placed(&topology(), &["a", "b"]);
        let names: Vec<&str> = places.iter().map(|place| place.worker.as_str()).collect();
        assert_eq!(names, ["a", "b", "a", "b", "a"]);
        let more = BTreeMap::from([("a".to_string(), 2), ("b".to_string(), 1)]);
        assert_eq!(slots(&more), ["a", "b", "a"]);
    }

    #[test]
    fn channels_are_where_they_belong() {
        let mut pools = pools(&["a", "b"]);
        pools.by_cluster.insert(Some("small".into()), BTreeMap::from([("c".to_string(), 1)]));
        let small = || Some("small".to_string());
        let locations = vec![None, None, small(), small(), small()];
        let places = place(&topology(), &locations, &pools).unwrap();
        let names: Vec<&str> = places.iter().map(|place| place.worker.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "c", "c"]);
        pools.by_cluster.clear();
        assert!(place(&topology(), &locations, &pools).is_err());
    }

    #[test]
    fn what_is_lost_and_needed_runs_again() {
        let (topology, result, locations) = (topology(), BTreeSet::from([2, 3, 4]), vec![None; 5]);
        let mut channels = placed(&topology, &["a", "b"]);
        let replaced = |channels: &[ChannelRecord], kept| {
            replace(&topology, &result, &locations, kept, channels, &pools(&["b", "c"]))
        };
        let lost = |channels: &[ChannelRecord]| replaced(channels, Kept::All).into_keys().collect::<Vec<_>>();
        assert_eq!(lost(&channels), [0, 2, 4]);
        channels[0].ended = true;
        assert_eq!(lost(&channels), [0, 2, 4], "what it had sent is gone");
        channels.iter_mut().for_each(|channel| channel.ended = true);
        assert_eq!(lost(&channels), [0, 2, 4], "the shards 0 and 2 of the result are gone");
        let all: Vec<usize> = replaced(&channels, Kept::Result).into_keys().collect();
        assert_eq!(all, [0, 1, 2, 4], "and so is what they were computed from");
        channels[2].worker = "b".into();
        channels[4].worker = "c".into();
        assert_eq!(lost(&channels), [] as [usize; 0], "nobody reads any more what channel 0 had sent");
        channels[4].ended = false;
        let expected = ChannelRecord { worker: "b".into(), attempt: 1, ended: false };
        assert_eq!(replaced(&channels, Kept::All), BTreeMap::from([(0, expected)]), "b does less");
    }

    #[test]
    fn workers_that_drain_keep_what_they_have() {
        let topology = topology();
        let channels = placed(&topology, &["a", "b"]);
        let mut pools = pools(&["a", "b"]);
        pools.by_cluster.insert(None, BTreeMap::from([("b".to_string(), 1)]));
        let replaced =
            replace(&topology, &BTreeSet::from([2, 3, 4]), &vec![None; 5], Kept::All, &channels, &pools);
        assert!(replaced.is_empty());
    }
}
