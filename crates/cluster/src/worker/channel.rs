//! A channel that runs on a thread of a worker.

use super::launch::{Begin, Finished, Run, RunCounts};
use super::metrics::{Counted, Metrics, Outcome};
use crate::activity::{Activities, Watch};
use crate::backup::{Backup, Keeps, QueueBackup, QueueName};
use crate::carrier::{NetworkCarrier, Outgoing};
use crate::error::no_thread;
use crate::lineage::LineageLog;
use crate::plan::Plan;
use crate::pull::Puller;
use crate::queues::{Connected, Queues};
use crate::statistics::{Counters, add};
use crossbeam_channel::Sender;
use datafusion::common::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;
use whimbrel_sharded::error::panicked;
use whimbrel_sharded::runtime::{Halt, Item, Progress, run_channel, spawn};

/// A channel that runs here; dropping it stops the channel.
pub struct ChannelRun {
    is_abandoned: Arc<AtomicBool>,
    counted: Arc<CountedRun>,
    metrics: Arc<Metrics>,
    /// Lets others see what it does.
    _watch: Watch,
    /// What reads its queues.
    _pulls: JoinSet<()>,
}

/// What a run counts.
struct CountedRun {
    progress: Progress,
    counters: Arc<Counters>,
    sent: Vec<Arc<QueueBackup>>,
}

impl ChannelRun {
    /// Starts a channel. `finished` is told when it has ended, unless it was stopped; metrics in any case.
    ///
    /// # Errors
    /// Those of the store; `ResourcesExhausted` if there is no thread for it.
    pub fn start(
        begin: Begin<'_>,
        puller: &Puller,
        backup: &Backup,
        log: &LineageLog,
        (finished, metrics, activities): (&Sender<Finished>, &Arc<Metrics>, &Arc<Activities>),
    ) -> Result<ChannelRun> {
        let Begin { plan, channel: number, attempt, .. } = begin;
        let (Connected { carrier, sent, pulls }, result) = connect(&begin, puller, backup, log)?;
        let (is_abandoned, counters) = (Arc::clone(&carrier.is_abandoned), Arc::clone(&carrier.counters));
        let progress = Progress::default();
        let watch = activities.watch(&plan.job, &progress);
        let (plan, channel_progress, finished) = (Arc::clone(plan), progress.clone(), finished.clone());
        let running = metrics.begin();
        let run = move || {
            let ended =
                catch_unwind(AssertUnwindSafe(|| run(&plan, number, carrier, result, &channel_progress)));
            let id = plan.topology.channels()[number].to_string();
            let (outcome, failure) =
                match ended.unwrap_or_else(|panic| Err(Halt::Failed(panicked(&id, panic)))) {
                    Ok(()) => (Outcome::Ended, None),
                    Err(Halt::Stopped) => return,
                    Err(Halt::Failed(error)) => (Outcome::Failed, Some(error)),
                };
            running.end(outcome);
            // A worker that is gone needs no reports.
            let _ = finished.send(Finished { job: plan.job.clone(), channel: number, attempt, failure });
        };
        spawn(run).map_err(no_thread)?;
        let counted = Arc::new(CountedRun { progress, counters, sent });
        metrics.add(counted.clone());
        let metrics = Arc::clone(metrics);
        Ok(ChannelRun { is_abandoned, counted, metrics, _watch: watch, _pulls: pulls })
    }
}

impl Run for ChannelRun {
    fn set_abandoned(&self, abandoned: bool) {
        self.is_abandoned.store(abandoned, Ordering::Relaxed);
    }

    fn counts(&self) -> RunCounts {
        self.counted.counts()
    }
}

impl Counted for CountedRun {
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
        self.counted.progress.cancel();
        self.metrics.retire(&(self.counted.clone() as Arc<dyn Counted>));
    }
}

/// Connects the queues of a channel, and begins that of the shard of the result that it makes.
fn connect(
    begin: &Begin<'_>,
    puller: &Puller,
    backup: &Backup,
    log: &LineageLog,
) -> Result<(Connected, Option<Outgoing>)> {
    let Begin { plan, channel, attempt, version, schedule, places } = begin;
    let choices = log.of_channel(&plan.job, *channel, *attempt, *version, schedule.is_dynamic)?;
    let lineage = Arc::clone(choices.lineage());
    let (job, topology) = (&plan.job, &plan.topology);
    let queues = Queues { job, topology, places, puller, backup: (backup, Keeps::All) };
    let mut connected = queues.connect(*channel, choices);
    let shards = topology.channels_of(plan.programs.stages().result.0);
    let result = shards.contains(channel).then(|| {
        let queue = backup.begin(QueueName::of_result(job, topology, *channel), Keeps::All);
        connected.sent.push(Arc::clone(&queue));
        Outgoing::new(queue, &lineage, false)
    });
    Ok((connected, result))
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
