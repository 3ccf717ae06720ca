//! A channel that runs on a thread of a worker.

use super::launch::{Begin, Finished, Run, RunCounts};
use crate::backup::{Backup, QueueBackup, QueueName};
use crate::carrier::{Incoming, NetworkCarrier, Outgoing};
use crate::error::no_thread;
use crate::lineage::{ChannelLineage, LineageLog};
use crate::plan::Plan;
use crate::pull::Puller;
use crate::statistics::{Counters, add};
use crossbeam_channel::{Sender, bounded};
use datafusion::common::Result;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;
use whimbrel_sharded::error::panicked;
use whimbrel_sharded::runtime::{Halt, Item, LaneOrigin, Progress, run_channel, spawn};

/// A channel that runs here; dropping it stops the channel.
pub struct ChannelRun {
    progress: Progress,
    is_abandoned: Arc<AtomicBool>,
    counters: Arc<Counters>,
    sent: Vec<Arc<QueueBackup>>,
    /// What reads its queues.
    _pulls: JoinSet<()>,
}

impl ChannelRun {
    /// Starts a channel. `finished` is told when it has ended, unless it was stopped.
    ///
    /// # Errors
    /// Those of the store; `ResourcesExhausted` if there is no thread for it.
    pub fn start(
        begin: Begin<'_>,
        puller: &Puller,
        backup: &Backup,
        log: &LineageLog,
        finished: &Sender<Finished>,
    ) -> Result<ChannelRun> {
        let Begin { plan, channel: number, attempt, .. } = begin;
        let Connected { carrier, result, sent, pulls } = connect(&begin, puller, backup, log)?;
        let (is_abandoned, counters) = (Arc::clone(&carrier.is_abandoned), Arc::clone(&carrier.counters));
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
        spawn(run).map_err(no_thread)?;
        Ok(ChannelRun { progress, is_abandoned, counters, sent, _pulls: pulls })
    }
}

impl Run for ChannelRun {
    fn set_abandoned(&self, abandoned: bool) {
        self.is_abandoned.store(abandoned, Ordering::Relaxed);
    }

    fn counts(&self) -> RunCounts {
        RunCounts {
            tasks: self.counters.tasks.load(Ordering::Relaxed),
            rows: self.counters.rows.load(Ordering::Relaxed) + self.progress.rows_read(),
            late_rows: self.progress.rows_late(),
            moved_bytes: self.counters.moved_bytes.load(Ordering::Relaxed),
            spilled_bytes: self.sent.iter().map(|queue| queue.spilled_bytes()).sum(),
        }
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
    /// All queues that it fills.
    sent: Vec<Arc<QueueBackup>>,
    pulls: JoinSet<()>,
}

/// Begins the queues that a channel fills, and to read those that it reads.
fn connect(begin: &Begin<'_>, puller: &Puller, backup: &Backup, log: &LineageLog) -> Result<Connected> {
    let Begin { plan, channel: number, attempt, version, schedule, places } = begin;
    let choices = log.of_channel(&plan.job, *number, *attempt, *version, schedule.is_dynamic)?;
    let lineage = Arc::clone(choices.lineage());
    let topology = &plan.topology;
    let name = |queue| QueueName { job: plan.job.clone(), queue };
    let is_here = |queue: usize| {
        let own = puller.own.as_ref().map(|(own, _)| own);
        own.is_some_and(|own| places.borrow().is_at(topology.queues()[queue].consumer, own))
    };
    let mut sent = Vec::new();
    let mut start = |name: QueueName, lineage: &Arc<ChannelLineage>, is_local: bool| {
        let queue = backup.begin(name);
        sent.push(Arc::clone(&queue));
        Outgoing::new(queue, lineage, is_local)
    };
    let targets = topology.edges(*number).iter().flat_map(|edge| &edge.targets).copied();
    let outgoing = targets.map(|queue| (queue, start(name(queue), &lineage, is_here(queue)))).collect();
    let shards = topology.channels_of(plan.programs.stages().result.0);
    let result = shards
        .contains(number)
        .then(|| start(QueueName::of_result(&plan.job, topology, *number), &lineage, false));
    let counters = Arc::new(Counters::default());
    let (notify, arrivals) = bounded(1);
    let notify = choices.are_needed().then_some(notify);
    let (mut pulls, mut frames) = (JoinSet::new(), BTreeMap::new());
    for lane in topology.lanes(*number) {
        if let LaneOrigin::Queue(queue) = lane {
            let producer = topology.queues()[*queue].producer;
            let (places, moved) = ((*places).clone(), &counters.moved_bytes);
            let pulled = puller.pull(&mut pulls, name(*queue), producer, places, moved, notify.clone());
            frames.insert(*queue, pulled);
        }
    }
    let incoming = Incoming { frames, arrivals, choices };
    let is_abandoned = Arc::default();
    let carrier = NetworkCarrier { incoming, outgoing, waiting: vec![], is_abandoned, counters };
    Ok(Connected { carrier, result, sent, pulls })
}

/// Runs a channel to its end, and until what it has chosen is durable.
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
        let (append, counters) = (append.clone(), Arc::clone(&carrier.counters));
        Box::new(move |message| {
            add(&counters.tasks, 1);
            append(Item::Message(message))
        }) as _
    });
    run_channel(&plan.programs, &plan.topology, number, &plan.options, sink, &mut carrier, progress)?;
    append(Item::End)?;
    match carrier.incoming.choices.lineage().wait() {
        true => Ok(()),
        false => Err(Halt::Stopped),
    }
}
