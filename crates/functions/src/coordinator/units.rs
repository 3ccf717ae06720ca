//! The work of a query: its tasks, and between the stages of large shuffles the tasks that combine
//! (starling.txt §4.2).
//!
//! With `s` producers and `r` consumers, a shuffle takes `s·r` reads. A combining task puts a part `p` of the
//! partitions of a part `f` of the producers into one object, whose partitions lie in the order in which
//! consumers read them: then it takes `s/p + r/f` reads and `1/(p·f)` writes more.
//!
//! Invariants: units are numbered, tasks first, as the plan numbers them; a unit reads from other units in
//! [`Reading`]s, each of which is one request.

use crate::plan::Plan;
use crate::prices::PriceSheet;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use whimbrel_sharded::runtime::QueueId;

/// For how long a combining task runs beside its transfers, in seconds.
const COMBINE_SECONDS: f64 = 0.1;

/// How many combining tasks there are at least for each hundred producers.
const COMBINERS: usize = 4;

/// About how many bytes a task combines at most: it reads them, holds them, and writes them.
const COMBINED_BYTES: f64 = 256e6;

/// The work of a query.
pub struct Units {
    /// The plan.
    pub plan: Arc<Plan>,
    combines: Vec<Combine>,
    /// What each unit reads.
    readings: Vec<Vec<Reading>>,
    /// Which units read from each unit, and the numbers of these readings of theirs.
    readers: Vec<Vec<(usize, Vec<usize>)>>,
    /// Which units each unit reads from, once each.
    sources: Vec<Vec<usize>>,
}

/// A task that combines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Combine {
    /// The stage of the producers.
    pub stage: usize,
    /// How many partitions it makes.
    pub partitions: usize,
}

/// Partitions that a unit reads from another, which follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The unit that makes them.
    pub from: usize,
    /// The first partition.
    pub first: usize,
    /// The lane that each is read into.
    pub lanes: Vec<u32>,
}

/// How a shuffle is combined: into how many groups producers and consumers are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// Groups of producers: `1/f`.
    pub producers: usize,
    /// Groups of consumers: `1/p`.
    pub consumers: usize,
}

impl Groups {
    /// The groups with the fewest reads (`s/p = r/f`) for as few combining tasks as so many bytes allow.
    pub fn of(producers: usize, consumers: usize, bytes: f64) -> Groups {
        let combiners = (producers.div_ceil(100) * COMBINERS) as f64;
        let combiners = combiners.max(bytes / COMBINED_BYTES).min((producers * consumers) as f64);
        // s·(1/p) = r·(1/f), and (1/p)·(1/f) = combiners.
        let of_consumers = (combiners * consumers as f64 / producers as f64).sqrt().round().max(1.0);
        let of_consumers = (of_consumers as usize).min(consumers);
        let of_producers = (combiners / of_consumers as f64).round().max(1.0) as usize;
        Groups { producers: of_producers.min(producers), consumers: of_consumers }
    }

    /// The groups for rows that all consumers read: each combining task reads whole objects.
    fn of_broadcast(producers: usize, bytes: f64) -> Groups {
        let least = producers.div_ceil(100);
        Groups { producers: least.max((bytes / COMBINED_BYTES) as usize).min(producers), consumers: 1 }
    }

    /// How many reads the shuffle takes: those of combining tasks and of consumers.
    pub fn reads(self, producers: usize, consumers: usize) -> usize {
        producers * self.consumers + consumers * self.producers
    }

    /// Whether the shuffle of so many bytes costs less with combining tasks.
    fn pays(self, producers: usize, consumers: usize, bytes: f64, costs: &CombineCosts) -> bool {
        let CombineCosts { prices, memory, transfer } = costs;
        let saved = (producers * consumers).saturating_sub(self.reads(producers, consumers)) as f64;
        let tasks = (self.producers * self.consumers) as f64;
        let seconds = tasks * COMBINE_SECONDS + 2.0 * bytes / transfer;
        let time = seconds * prices.gb_second * f64::from(*memory) / 1024.0;
        saved * prices.get > tasks * (prices.put + prices.invocation) + time
    }
}

/// What combining costs.
#[derive(Debug, Clone, PartialEq)]
pub struct CombineCosts {
    /// The prices of requests and of functions.
    pub prices: PriceSheet,
    /// The megabytes of memory of a function.
    pub memory: u32,
    /// How many bytes a function reads or writes in a second.
    pub transfer: f64,
}

/// Which shuffles are combined.
#[derive(Debug, Clone)]
pub enum Combining {
    /// None.
    Never,
    /// All that have at least two producers and two consumers.
    Always,
    /// Those that cost less so.
    WhereCheaper(CombineCosts),
}

impl Combining {
    /// The groups of a shuffle, if it is combined.
    pub fn groups(
        &self,
        producers: usize,
        consumers: usize,
        bytes: f64,
        is_broadcast: bool,
    ) -> Option<Groups> {
        let groups = match is_broadcast {
            true => Groups::of_broadcast(producers, bytes),
            false => Groups::of(producers, consumers, bytes),
        };
        let pays = match self {
            Combining::Never => false,
            Combining::Always => true,
            Combining::WhereCheaper(costs) => groups.pays(producers, consumers, bytes, costs),
        };
        (pays && producers > 1 && consumers > 1).then_some(groups)
    }
}

impl Units {
    /// The work of a plan.
    pub fn of(plan: Arc<Plan>, combining: &Combining) -> Units {
        let tasks = plan.tasks();
        let mut combines = Vec::new();
        let mut readings: Vec<Vec<Reading>> = vec![vec![]; tasks];
        // Where each queue is read: the unit, and the partition.
        let mut places: Vec<(usize, usize)> = vec![(0, 0); plan.topology.queues().len()];
        for task in 0..tasks {
            for (queue, partition) in plan.layout(task).queues {
                places[queue] = (task, partition);
            }
        }
        let estimates = plan.programs.estimates();
        for shuffle in shuffles(&plan) {
            let (producers, consumers) = (shuffle.queues.len(), shuffle.queues[0].len());
            let bytes = estimates[shuffle.stage].output_bytes;
            if let Some(groups) = combining.groups(producers, consumers, bytes, shuffle.is_broadcast) {
                let first = tasks + combines.len();
                shuffle.combine(first, groups, &mut places, &mut readings);
                let partitions = readings[first..].iter().map(|own| own.iter().map(|r| r.lanes.len()).sum());
                combines.extend(partitions.map(|partitions| Combine { stage: shuffle.stage, partitions }));
            }
        }
        for (task, own) in readings.iter_mut().take(tasks).enumerate() {
            *own = task_readings(&plan, task, &places);
        }
        let mut readers = vec![vec![]; readings.len()];
        let mut sources = vec![vec![]; readings.len()];
        for (unit, own) in readings.iter().enumerate() {
            let mut from: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for (number, reading) in own.iter().enumerate() {
                from.entry(reading.from).or_default().push(number);
            }
            sources[unit] = from.keys().copied().collect();
            from.into_iter().for_each(|(source, numbers)| readers[source].push((unit, numbers)));
        }
        Units { plan, combines, readings, readers, sources }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.readings.len()
    }

    /// The stage of a unit; a task that combines belongs to that of its producers.
    pub fn stage(&self, unit: usize) -> usize {
        match self.combine(unit) {
            Some(combine) => combine.stage,
            None => self.plan.stage(unit),
        }
    }

    /// The combining task that a unit is, if it is one.
    pub fn combine(&self, unit: usize) -> Option<&Combine> {
        self.combines.get(unit.checked_sub(self.plan.tasks())?)
    }

    /// What a unit reads.
    pub fn readings(&self, unit: usize) -> &[Reading] {
        &self.readings[unit]
    }

    /// The units that read from a unit.
    pub fn readers(&self, unit: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.readers[unit].iter().map(|(reader, _)| *reader)
    }

    /// What each unit reads from a unit that reads from it.
    pub fn readings_of(&self, unit: usize) -> impl Iterator<Item = (usize, impl Iterator<Item = &Reading>)> {
        self.readers[unit].iter().map(|(reader, numbers)| {
            let own = &self.readings[*reader];
            (*reader, numbers.iter().map(|number| &own[*number]))
        })
    }

    /// The units that a unit reads from.
    pub fn sources(&self, unit: usize) -> &[usize] {
        &self.sources[unit]
    }

    /// How many partitions the output of a unit has.
    pub fn partitions(&self, unit: usize) -> usize {
        match self.combine(unit) {
            Some(combine) => combine.partitions,
            None => self.plan.layout(unit).partitions,
        }
    }
}

/// A movement from each task of a stage to each task of another.
struct Shuffle {
    /// The stage of the producers.
    stage: usize,
    /// Whether all consumers read the same.
    is_broadcast: bool,
    /// The queues of each producer, to each consumer.
    queues: Vec<Vec<QueueId>>,
}

/// The shuffles of a plan. What goes to some consumers only is none.
fn shuffles(plan: &Plan) -> Vec<Shuffle> {
    let mut found: BTreeMap<(usize, usize), Shuffle> = BTreeMap::new();
    let mut partial = Vec::new();
    for task in 0..plan.tasks() {
        for edge in plan.topology.edges(task) {
            let all = plan.topology.channels_of(edge.stage).len();
            let place = (edge.stage, edge.input);
            if edge.targets.len() != all {
                partial.push(place);
            }
            let (stage, is_broadcast) = (plan.stage(task), plan.is_broadcast(edge));
            let shuffle = || Shuffle { stage, is_broadcast, queues: vec![] };
            let shuffle = found.entry(place).or_insert_with(shuffle);
            shuffle.queues.push(edge.targets.clone());
        }
    }
    partial.iter().for_each(|place| _ = found.remove(place));
    found.into_values().filter(|shuffle| !shuffle.queues[0].is_empty()).collect()
}

impl Shuffle {
    /// Adds what combining tasks read, and says for each queue where it is found now.
    fn combine(
        &self,
        first: usize,
        groups: Groups,
        places: &mut [(usize, usize)],
        readings: &mut Vec<Vec<Reading>>,
    ) {
        let (producers, consumers) = (self.queues.len(), self.queues[0].len());
        debug_assert_eq!(first, readings.len());
        for own in divide(producers, groups.producers) {
            for readers in divide(consumers, groups.consumers) {
                let unit = readings.len();
                let mut read = Vec::with_capacity(own.len());
                for (place, producer) in own.clone().enumerate() {
                    let queues = &self.queues[producer][readers.clone()];
                    let (from, partition) = places[queues[0]];
                    // All partitions of a consumer lie side by side, in the order of producers; those of all
                    // consumers are the same if all read the same.
                    let partitions = if self.is_broadcast { 1 } else { queues.len() };
                    let lane = |consumer: usize| consumer % partitions * own.len() + place;
                    let lanes = (0..partitions).map(|consumer| lane(consumer) as u32).collect();
                    read.push(Reading { from, first: partition, lanes });
                    for (consumer, queue) in queues.iter().enumerate() {
                        places[*queue] = (unit, lane(consumer));
                    }
                }
                readings.push(read);
            }
        }
    }
}

/// Divides so many things into groups that are about as large as each other.
fn divide(count: usize, groups: usize) -> impl Iterator<Item = Range<usize>> {
    (0..groups).map(move |group| group * count / groups..(group + 1) * count / groups)
}

/// What a task reads: queues that lie side by side in a combined object at once.
fn task_readings(plan: &Plan, task: usize, places: &[(usize, usize)]) -> Vec<Reading> {
    let mut readings: Vec<Reading> = Vec::new();
    for (lane, queue) in plan.inputs(task).enumerate() {
        let (from, partition) = places[queue];
        match readings.last_mut() {
            Some(last)
                if from >= plan.tasks()
                    && last.from == from
                    && last.first + last.lanes.len() == partition =>
            {
                last.lanes.push(lane as u32);
            }
            _ => readings.push(Reading { from, first: partition, lanes: vec![lane as u32] }),
        }
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5120 producers and 1280 consumers: as the paper chooses p = 1/20 and f = 1/64 with 1280 combining
    /// tasks.
    #[test]
    fn the_groups_of_the_paper_have_as_many_reads_as_their_formula() {
        let groups = Groups { producers: 64, consumers: 20 };
        assert_eq!(groups.reads(5120, 1280), 5120 * 20 + 1280 * 64);
        let best = Groups { producers: 80, consumers: 16 };
        assert_eq!(best.reads(5120, 1280), groups.reads(5120, 1280));
    }

    #[test]
    fn large_shuffles_are_combined_and_small_ones_are_not() {
        let prices = PriceSheet::named("aws-us-east-1-x86").unwrap();
        let combining = Combining::WhereCheaper(CombineCosts { prices, memory: 3008, transfer: 75e6 });
        assert_eq!(combining.groups(8, 8, 1e6, false), None);
        assert_eq!(combining.groups(512, 1, 1e6, false), None);
        let groups = combining.groups(5120, 1280, 1e12, false).unwrap();
        assert!(groups.reads(5120, 1280) < 5120 * 1280 / 10, "{groups:?}");
        let groups = combining.groups(512, 512, 1e6, true).unwrap();
        assert_eq!(groups.reads(512, 512), 512 + 6 * 512);
    }

    #[test]
    fn a_task_combines_no_more_than_it_can_hold() {
        let prices = PriceSheet::named("aws-us-east-1-x86").unwrap();
        let combining = Combining::WhereCheaper(CombineCosts { prices, memory: 3008, transfer: 75e6 });
        let groups = Groups::of(1000, 1000, 256e9);
        assert!((900..1100).contains(&(groups.producers * groups.consumers)), "{groups:?}");
        // So many bytes cost more to be read and written once more than they save in requests.
        assert_eq!(combining.groups(1000, 1000, 1e12, false), None);
        assert!(combining.groups(1000, 1000, 1e11, false).is_some());
    }
}
