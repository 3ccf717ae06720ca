//! A channel that runs on a thread of a worker.

use super::plan::{Finished, Plan};
use crate::backup::QueueName;
use crate::carrier::{NetworkCarrier, Outgoing};
use crate::pull::{Places, Puller};
use crossbeam_channel::Sender;
use datafusion::common::{DataFusionError, Result, internal_err};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use tokio::task::JoinSet;
use whimbrel_sharded::error::panicked;
use whimbrel_sharded::runtime::{Halt, Item, LaneOrigin, Progress, run_channel, spawn};

/// A channel that runs here; dropping it stops the channel.
pub struct ChannelRun {
    /// Which of its attempts it is.
    pub attempt: u32,
    progress: Progress,
    is_abandoned: Arc<AtomicBool>,
    /// What reads its queues.
    _pulls: JoinSet<()>,
}

impl ChannelRun {
    /// Starts a channel. `finished` is told when it has ended, unless it was stopped.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no thread for it.
    pub fn start(
        plan: &Arc<Plan>,
        number: usize,
        attempt: u32,
        puller: &Puller,
        places: watch::Receiver<Places>,
        finished: &Sender<Finished>,
    ) -> Result<ChannelRun> {
        let Connected { carrier, result, pulls } = connect(plan, number, puller, &places)?;
        let is_abandoned = Arc::clone(&carrier.is_abandoned);
        let progress = Progress::default();
        let (plan, channel_progress, finished) = (Arc::clone(plan), progress.clone(), finished.clone());
        let run = move || {
            let ended =
                catch_unwind(AssertUnwindSafe(|| run(&plan, number, carrier, result, &channel_progress)));
            let id = plan.topology.channels()[number].to_string();
            let failure = match ended.unwrap_or_else(|panic| Err(Halt::Failed(panicked(&id, panic)))) {
                Ok(()) => None,
                Err(Halt::Stopped) => return,
                Err(Halt::Failed(error)) => Some(error),
            };
            // A worker that is gone needs no reports.
            let _ = finished.send(Finished { job: plan.job.clone(), channel: number, attempt, failure });
        };
        spawn(run).map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))?;
        Ok(ChannelRun { attempt, progress, is_abandoned, _pulls: pulls })
    }

    /// Says whether all consumers have ended.
    pub fn set_abandoned(&self, abandoned: bool) {
        self.is_abandoned.store(abandoned, Ordering::Relaxed);
    }
}

impl Drop for ChannelRun {
    fn drop(&mut self) {
        self.progress.cancel();
    }
}

/// A channel's queues.
struct Connected {
    carrier: NetworkCarrier,
    /// The queue of the shard of the result that it makes.
    result: Option<Outgoing>,
    pulls: JoinSet<()>,
}

/// Begins the queues that a channel fills, and to read those that it reads.
fn connect(
    plan: &Plan,
    number: usize,
    puller: &Puller,
    places: &watch::Receiver<Places>,
) -> Result<Connected> {
    let Some((own, backup)) = &puller.own else { return internal_err!("a worker has a backup") };
    let topology = &plan.topology;
    let name = |queue| QueueName { job: plan.job.clone(), queue };
    let is_here = |queue: usize| places.borrow().is_at(topology.queues()[queue].consumer, own);
    let begin = |queue| (queue, Outgoing::new(backup.begin(name(queue)), is_here(queue)));
    let outgoing = topology.edges(number).iter().flat_map(|edge| &edge.targets).copied().map(begin).collect();
    let shards = topology.channels_of(plan.programs.stages().result.0);
    let result = shards.contains(&number).then(|| {
        let name = QueueName::of_result(&plan.job, topology, number);
        Outgoing::new(backup.begin(name), false)
    });
    let (mut pulls, mut incoming) = (JoinSet::new(), BTreeMap::new());
    for lane in topology.lanes(number) {
        if let LaneOrigin::Queue(queue) = lane {
            let producer = topology.queues()[*queue].producer;
            incoming.insert(*queue, puller.pull(&mut pulls, name(*queue), producer, places.clone()));
        }
    }
    let carrier = NetworkCarrier { incoming, outgoing, waiting: vec![], is_abandoned: Arc::default() };
    Ok(Connected { carrier, result, pulls })
}

/// Runs a channel to its end.
fn run(
    plan: &Plan,
    number: usize,
    mut carrier: NetworkCarrier,
    result: Option<Outgoing>,
    progress: &Progress,
) -> std::result::Result<(), Halt> {
    let result = Arc::new(Mutex::new(result));
    let append = {
        let result = Arc::clone(&result);
        move |item: Item| match &mut *result.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(queue) => queue.append(item),
            None => Ok(()),
        }
    };
    let is_result = result.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    let sink = is_result.then(|| {
        let append = append.clone();
        Box::new(move |message| append(Item::Message(message))) as _
    });
    run_channel(&plan.programs, &plan.topology, number, &plan.options, sink, &mut carrier, progress)?;
    Ok(append(Item::End)?)
}
