//! The protocol of the cluster, checked by simulation: workers, clients and their store in one thread, with
//! faults by chance.
//!
//! What runs is the code of workers: registration, rounds, placement, recovery, reports, lineage, backups.
//! What is simulated is what they stand on: time, threads, the network, and what channels compute.
//!
//! Layers, lowest first: `environment`, what all share; `store`; `channel`; `process`, a worker; `client`;
//! `world`, which lets them go on.

mod channel;
mod client;
mod environment;
mod process;
mod store;
mod world;

use std::env::var;
use std::sync::Arc;
use store::Mutation;
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{References, Series, Source, Stream};
use whimbrel_session::PlanReferences;
use whimbrel_sharded::{JobSpec, Options};
use world::simulate;

/// How many seeds are tried if nothing is said.
const SEEDS: u64 = 200;

/// Within how many seeds a broken rule is found.
const UNTIL_FOUND: u64 = 100;

/// Three stages: two channels that make rows, three that pass them on, and two with the result.
fn spec() -> Arc<JobSpec> {
    let numbers = Series::new("n", 0, 10, 1, true).unwrap().with_shards(2).unwrap();
    let numbers = Stream::scan("numbers", numbers).unwrap();
    let moved = numbers.reshard(Some(3), Scope::Global).unwrap().reshard(Some(2), Scope::Global).unwrap();
    let references: Arc<dyn References> = Arc::new(PlanReferences);
    Arc::new(JobSpec::of(&moved, &Options::default(), &references).unwrap())
}

fn number(variable: &str) -> Option<u64> {
    var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// `WHIMBREL_SEED` is the only one that is tried, with all that happens; `WHIMBREL_SEEDS` is how many are.
#[test]
fn every_job_ends_with_each_row_once() {
    let spec = spec();
    let only = number("WHIMBREL_SEED");
    let seeds = match only {
        Some(seed) => seed..seed + 1,
        None => 0..number("WHIMBREL_SEEDS").unwrap_or(SEEDS),
    };
    let mut completed = 0;
    for seed in seeds.clone() {
        match simulate(seed, Mutation::None, &spec) {
            Ok((jobs, trace)) => {
                completed += jobs;
                only.iter().for_each(|_| println!("{trace}"));
            }
            Err(violation) => panic!(
                "{violation}\nagain: WHIMBREL_SEED={seed} cargo test --release -p whimbrel-cluster --lib \
                 simulation::every_job"
            ),
        }
    }
    println!("{} seeds, {completed} jobs", seeds.count());
}

#[test]
fn a_seed_decides_all() {
    let spec = spec();
    for seed in 0..10 {
        assert_eq!(simulate(seed, Mutation::None, &spec), simulate(seed, Mutation::None, &spec));
    }
}

#[test]
fn broken_rules_are_found() {
    let spec = spec();
    for mutation in [Mutation::Unfenced, Mutation::SameAttempt, Mutation::NoLineage] {
        let found = (0..UNTIL_FOUND).find_map(|seed| Some((seed, simulate(seed, mutation, &spec).err()?)));
        let Some((seed, violation)) = found else { panic!("{mutation:?} passes for right") };
        println!("{mutation:?}: seed {seed}, {}", violation.lines().last().unwrap_or_default());
    }
}
