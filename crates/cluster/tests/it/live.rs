//! Live jobs on real processes, which are killed, stopped and let go on: what their sinks have in the end is
//! what one undisturbed run gives.

use crate::live_processes::{Processes, Root, alone, alone_with, clicks, query, results};
use crate::support::TestCluster;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whimbrel_cluster::{LiveJob, LiveState};
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{Agg, JoinKind, Source, Stream, column};
use whimbrel_sharded::Options;
use whimbrel_sharded::dataset::LiveDataset;
use whimbrel_temporal::Closed;

/// How long something may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets input come until something is so.
fn grow_until(root: &mut Root, what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "{what}");
        root.grow();
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lets input come until a job was begun so often, and its host has committed results since.
fn grow_until_committed(root: &mut Root, job: &LiveJob, attempt: u32) {
    let has_committed = || {
        let progress = job.progress().unwrap();
        progress
            .is_some_and(|now| now.attempt >= attempt && now.committed > now.restored_from.unwrap_or(0) + 3)
    };
    grow_until(root, "the host commits nothing", has_committed);
}

/// Waits until a job has nothing more to read.
fn finish(job: &LiveJob) {
    assert!(job.wait(Some(Instant::now() + PATIENCE)).unwrap(), "the job does not end");
    assert_eq!(job.record().unwrap().state, LiveState::Ended);
}

#[test]
fn a_killed_host_loses_nothing_and_repeats_nothing() {
    let (Some(mut processes), mut root) = (Processes::start(2), Root::new("killed")) else { return };
    let job = processes.submit_elsewhere(&root);
    for attempt in 1..=3 {
        grow_until_committed(&mut root, &job, attempt);
        processes.kill(processes.host(&job));
        processes.add_worker();
    }
    grow_until_committed(&mut root, &job, 4);
    assert!(job.progress().unwrap().unwrap().restored_from.is_some(), "it began at the beginning");
    finish(&job);
    assert_eq!(results(&root.out()), alone(&root));
}

#[test]
fn a_host_that_was_stopped_does_not_write_any_more() {
    let (Some(processes), mut root) = (Processes::start(2), Root::new("stopped")) else { return };
    let job = processes.submit_elsewhere(&root);
    grow_until_committed(&mut root, &job, 1);
    let first = processes.host(&job);
    let name = job.record().unwrap().host;
    processes.signal(first, "STOP");
    grow_until_committed(&mut root, &job, 2);
    assert_ne!(processes.host(&job), first);
    processes.signal(first, "CONT");
    let is_back = || {
        let workers = processes.cluster.workers().unwrap();
        workers.iter().any(|worker| worker.record.process == first && Some(&worker.name) != name.as_ref())
    };
    grow_until(&mut root, "the first host does not come back", is_back);
    let attempt = job.record().unwrap().attempt;
    grow_until_committed(&mut root, &job, attempt);
    finish(&job);
    assert_eq!(results(&root.out()), alone(&root));
}

/// The name of a worker that runs channels of a job and is not its host.
fn other_member(job: &LiveJob) -> String {
    let record = job.record().unwrap();
    let members = record.members().into_iter().map(str::to_string).collect::<Vec<_>>();
    members.into_iter().find(|member| Some(member) != record.host.as_ref()).expect("the host is alone")
}

#[test]
fn a_killed_member_loses_nothing_and_repeats_nothing() {
    let (Some(mut processes), mut root) = (Processes::start(3), Root::new("member")) else { return };
    let job = processes.submit_elsewhere(&root);
    for attempt in 1..=3 {
        grow_until_committed(&mut root, &job, attempt);
        let (host, member) = (processes.host(&job), other_member(&job));
        processes.kill(processes.process(&member));
        processes.add_worker();
        grow_until_committed(&mut root, &job, attempt + 1);
        assert_eq!(processes.host(&job), host, "the job has another host");
        assert!(!job.record().unwrap().members().contains(&member.as_str()));
    }
    finish(&job);
    assert_eq!(results(&root.out()), alone(&root));
}

#[test]
fn a_member_that_was_stopped_is_done_without() {
    let (Some(processes), mut root) = (Processes::start(2), Root::new("slow-member")) else { return };
    let job = processes.submit_elsewhere(&root);
    grow_until_committed(&mut root, &job, 1);
    let member = processes.process(&other_member(&job));
    processes.signal(member, "STOP");
    grow_until_committed(&mut root, &job, 2);
    assert_eq!(job.record().unwrap().members().len(), 1);
    processes.signal(member, "CONT");
    grow_until_committed(&mut root, &job, 2);
    finish(&job);
    assert_eq!(results(&root.out()), alone(&root));
}

#[test]
fn workers_that_drain_are_let_go() {
    let (Some(processes), mut root) = (Processes::start(3), Root::new("drained")) else { return };
    let job = processes.submit_elsewhere(&root);
    grow_until_committed(&mut root, &job, 1);
    let host = job.record().unwrap().host.unwrap();
    processes.cluster.drain(&other_member(&job)).unwrap();
    grow_until_committed(&mut root, &job, 2);
    assert_eq!(job.record().unwrap().members().len(), 2);
    processes.cluster.drain(&host).unwrap();
    grow_until_committed(&mut root, &job, 3);
    let record = job.record().unwrap();
    assert_ne!(record.host, Some(host), "it is still the host");
    assert_eq!(record.members().len(), 1);
    // The last one has to go on.
    processes.cluster.drain(&record.host.unwrap()).unwrap();
    grow_until_committed(&mut root, &job, 3);
    finish(&job);
    assert_eq!(results(&root.out()), alone(&root));
}

#[test]
fn workers_that_come_later_get_their_part() {
    let (Some(mut processes), mut root) = (Processes::start(1), Root::new("grown")) else { return };
    let job = processes.submit_elsewhere(&root);
    grow_until_committed(&mut root, &job, 1);
    let host = processes.host(&job);
    assert_eq!(job.record().unwrap().members().len(), 1);
    processes.add_worker();
    grow_until(&mut root, "the job does not grow", || job.record().unwrap().members().len() == 2);
    let record = job.record().unwrap();
    assert_eq!((record.attempt, processes.host(&job)), (2, host), "it was begun once more, by its host");
    grow_until_committed(&mut root, &job, 2);
    finish(&job);
    assert!(job.progress().unwrap().unwrap().restored_from.is_some(), "it began at the beginning");
    assert_eq!(results(&root.out()), alone(&root));
}

/// Plans with several stages, inputs and kinds of exchanges.
fn plans(source: &Arc<dyn Source>) -> Vec<(&'static str, Stream)> {
    let clicks = || clicks(Arc::clone(source)).rekey(vec![column("item")]).unwrap();
    let sharded = |shards| clicks().redistribute(Some(shards), Scope::Global).unwrap();
    let count = || vec![("n".to_string(), Agg::count())];
    let windows = |stream: Stream| stream.tumbling(5, 0, Closed::Left).unwrap().aggregate(count()).unwrap();
    let by_item = || vec![(column("item"), column("item"))];
    let hopping = sharded(3).hopping(20, 5, 0, Closed::Left).unwrap().aggregate(count()).unwrap();
    let joined = windows(sharded(3)).join(&hopping, by_item(), JoinKind::Inner, "_of_twenty").unwrap();
    let all = windows(sharded(3)).reshard(Some(1), Scope::Global).unwrap();
    let copied = sharded(2).broadcast(Some(3), Scope::Global).unwrap();
    vec![
        ("hopping", hopping),
        ("joined", joined),
        ("in-two-steps", windows(all)),
        ("moved", sharded(2).reshard(Some(3), Scope::Global).unwrap()),
        ("copied", copied),
        ("one-shard", clicks()),
    ]
}

#[test]
fn every_kind_of_plan_runs_on_several_workers() {
    let (cluster, counted) = (TestCluster::new(3), Root::new("counted"));
    let mut running = Vec::new();
    for number in 0..plans(&counted.source()).len() {
        let mut root = Root::new(&format!("plan-{number}"));
        (0..200).for_each(|_| root.grow());
        let (name, plan) = plans(&root.source()).swap_remove(number);
        let job = cluster.cluster.run_forever(&plan, &Options::default(), &root.options()).unwrap();
        running.push((name, plan, job, root));
    }
    for (name, _, job, root) in &mut running {
        grow_until(root, "nobody hosts it", || job.record().unwrap().attempt > 0);
        let members = job.record().unwrap().members().len();
        assert_eq!(members, if *name == "one-shard" { 1 } else { 3 }, "{name}");
    }
    for (name, plan, job, root) in &running {
        finish(job);
        assert_eq!(results(&root.out()), alone_with(root, plan), "{name}");
    }
}

#[test]
fn a_job_is_stopped_and_goes_on() {
    let (Some(processes), mut root) = (Processes::start(1), Root::new("goes-on")) else { return };
    let job = processes.submit_elsewhere(&root);
    grow_until_committed(&mut root, &job, 1);
    assert!(job.remove().unwrap_err().to_string().contains("stop it first"));
    job.stop().unwrap();
    assert!(job.wait(Some(Instant::now() + PATIENCE)).unwrap());
    assert_eq!(job.record().unwrap().state, LiveState::Stopped);
    job.stop().unwrap();
    let before = results(&root.out());
    (0..50).for_each(|_| root.grow());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(results(&root.out()), before, "it goes on");
    job.remove().unwrap();
    assert!(processes.cluster.live_job(job.name()).is_err());

    let again = processes.submit_elsewhere(&root);
    finish(&again);
    assert!(again.progress().unwrap().unwrap().restored_from.is_some());
    assert_eq!(results(&root.out()), alone(&root));
}

#[test]
fn a_job_waits_for_a_worker_and_can_be_stopped_meanwhile() {
    let (Some(mut processes), mut root) = (Processes::start(0), Root::new("waits")) else { return };
    let job = processes.submit_elsewhere(&root);
    assert!(!job.wait(Some(Instant::now())).unwrap());
    assert_eq!((job.record().unwrap().attempt, job.progress().unwrap()), (0, None));
    let other = Root::new("waits-too");
    let stopped = processes.submit_elsewhere(&other);
    stopped.stop().unwrap();
    processes.add_worker();
    assert!(stopped.wait(Some(Instant::now() + PATIENCE)).unwrap());
    assert_eq!(stopped.record().unwrap().attempt, 0);
    grow_until_committed(&mut root, &job, 1);
    finish(&job);
    assert_eq!(results(&root.out()), alone(&root));
}

#[test]
fn an_error_of_the_input_ends_a_job() {
    let (Some(processes), mut root) = (Processes::start(2), Root::new("fails")) else { return };
    let job = processes.submit_elsewhere(&root);
    grow_until_committed(&mut root, &job, 1);
    root.append("never,a\n");
    let error = job.wait(Some(Instant::now() + PATIENCE)).unwrap_err();
    assert!(error.to_string().contains("never") || error.to_string().contains("clicks.csv"), "{error}");
    std::thread::sleep(Duration::from_secs(2));
    let record = job.record().unwrap();
    assert!(matches!(record.state, LiveState::Failed(_)), "{:?}", record.state);
    assert_eq!(record.attempt, 1, "it was tried again");
}

#[test]
fn sources_in_the_memory_of_the_client_are_refused() {
    let (cluster, root) = (TestCluster::new(0), Root::new("refused"));
    let fields = vec![Field::new("time", DataType::Int64, false), Field::new("item", DataType::Utf8, false)];
    let schema = Arc::new(Schema::new(fields));
    let (plain, _sender) = LiveDataset::new(Arc::clone(&schema), 1).unwrap();
    let (logged, _senders) = LiveDataset::with_journal(schema, 1, &root.path("log")).unwrap();
    for source in [plain as Arc<dyn Source>, logged] {
        let submitted = cluster.cluster.run_forever(&query(source), &Options::default(), &root.options());
        let error = submitted.err().unwrap();
        assert!(matches!(error.find_root(), DataFusionError::Plan(_)), "{error}");
    }
    let source = root.source();
    for place in ["nonsense://x", "kafka://broker/topic"] {
        let options = whimbrel_cluster::LiveJobOptions { to: place.into(), ..root.options() };
        let submitted = cluster.cluster.run_forever(&query(source.clone()), &Options::default(), &options);
        assert!(submitted.is_err(), "{place}");
    }
    assert!(cluster.cluster.live_jobs().unwrap().is_empty());
}
