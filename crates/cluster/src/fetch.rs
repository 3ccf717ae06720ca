//! The result of a job, fetched while the job runs, or later.
//!
//! It is read like any queue, so a worker that is lost meanwhile changes nothing.

use crate::backup::QueueName;
use crate::connection::Connection;
use crate::error::{no_thread, of_store};
use crate::follow::{Followed, STORE_TIMEOUT, follow, released, show_end, show_progress, unreachable_worker};
use crate::plan::Plan;
use crate::pull::{OnUnreachable, Places, Puller, Unreachable};
use crate::records::{CLIENT_LEASE, Tables};
use crate::remote_query::{FirstError, RemoteQuery};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use datafusion::common::{Result, plan_err};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use whimbrel_control::Lease;
use whimbrel_sharded::error::panicked;
use whimbrel_sharded::runtime::Frame;
use whimbrel_sharded::runtime::{Execution, Item, Progress, ResultSinks, Sink, hand_out, spawn};

/// How often a client looks how its job is doing.
const POLL: Duration = Duration::from_millis(100);

/// How often a client says that it is alive, and shows its progress.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Fetches the result of a job. With a lease, the job ends with that. Waiting for the execution gives the
/// error of the job, also if that has failed already.
///
/// # Errors
/// `Plan` if each shard has a sink, and there are not as many; `ResourcesExhausted` if there are no threads.
pub fn fetch(
    connection: &Connection,
    plan: &Arc<Plan>,
    lease: Option<Lease>,
    sinks: ResultSinks,
    progress: &Progress,
) -> Result<Box<dyn Execution>> {
    connection.check_process()?;
    let places = watch::Sender::default();
    let (running, ended) = bounded(0);
    let outcome = FirstError::default();
    let mut pulls = JoinSet::new();
    let moved = Arc::new(AtomicU64::new(0));
    let (complain, complaints) = unbounded();
    let puller = Puller { unreachable: OnUnreachable::Tell(complain), ..connection.puller() };
    let pull = |channel: usize| {
        let name = QueueName::of_result(&plan.job, &plan.topology, channel);
        puller.pull(&mut pulls, name, channel, places.subscribe(), &moved, None)
    };
    let shards = plan.result().into_iter().map(pull).collect();
    for (shards, sink) in deliveries(shards, sinks)? {
        let (outcome, running, progress) = (outcome.clone(), running.clone(), progress.clone());
        let delivery = move || {
            let delivered = catch_unwind(AssertUnwindSafe(|| deliver(shards, sink, &progress)));
            let delivered = delivered.unwrap_or_else(|panic| Err(panicked("the result", panic)));
            if let Err(error) = delivered {
                outcome.fail(error);
                progress.cancel();
            }
            drop::<Sender<Infallible>>(running);
        };
        spawn(delivery).map_err(no_thread)?;
    }
    drop(running);
    let (over, is_over) = bounded(0);
    let (tables, plan, progress) = (connection.tables.clone(), Arc::clone(plan), progress.clone());
    let watcher = Watcher { tables, plan, lease, places, complaints, _pulls: pulls, progress };
    let watched = outcome.clone();
    let watch = move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| watcher.watch(&ended)));
        if let Err(error) = outcome.unwrap_or_else(|panic| Err(panicked("the job", panic))) {
            watched.fail(error);
        }
        drop::<Sender<Infallible>>(over);
    };
    spawn(watch).map_err(no_thread)?;
    Ok(Box::new(RemoteQuery { is_over, outcome }))
}

/// The frames of a shard of the result.
type Shard = mpsc::Receiver<Frame>;

/// Which shards go to each sink, one after the other.
fn deliveries(shards: Vec<Shard>, sinks: ResultSinks) -> Result<Vec<(Vec<Shard>, Sink)>> {
    match sinks {
        ResultSinks::InOrder(sink) => Ok(vec![(shards, sink)]),
        ResultSinks::OfShards(sinks) if sinks.len() == shards.len() => {
            Ok(shards.into_iter().map(|shard| vec![shard]).zip(sinks).collect())
        }
        ResultSinks::OfShards(sinks) => {
            plan_err!("the job has {} shards, and there are {} sinks", shards.len(), sinks.len())
        }
    }
}

/// Hands the frames of shards of the result to a sink. They end early if the job does.
fn deliver(shards: Vec<Shard>, mut sink: Sink, progress: &Progress) -> Result<()> {
    for mut frames in shards {
        loop {
            // Without an end, the job has ended early, and no row of the next shard may follow.
            let Some(frame) = frames.blocking_recv() else { return Ok(()) };
            let Item::Message(message) = frame.item()? else { break };
            if !hand_out(message, &mut sink, progress)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Watches a job while its result is fetched.
struct Watcher {
    tables: Tables,
    plan: Arc<Plan>,
    /// The lease of the job, if it ends with its client.
    lease: Option<Lease>,
    /// Where its channels are, for those who fetch its result.
    places: watch::Sender<Places>,
    /// Which workers those who fetch it could not reach for long.
    complaints: Receiver<Unreachable>,
    /// What reads the result; it ends with the watcher.
    _pulls: JoinSet<()>,
    progress: Progress,
}

impl Watcher {
    /// Watches the job until its result has been fetched, or it has failed or was cancelled.
    fn watch(self, ended: &Receiver<Infallible>) -> Result<()> {
        let watched = self.watch_job(ended);
        // Late rows are counted at the end, and whoever has a job may ask next what it has done.
        let counts_matter = self.plan.has_ingress() || self.lease.is_none();
        if watched.is_ok() && !self.progress.cancelled() && counts_matter {
            show_end(&self.tables, &self.plan, &self.progress)?;
        }
        match self.lease {
            Some(_) => self.tables.remove_job(&self.plan.job).and(watched),
            None => watched,
        }
    }

    fn watch_job(&self, ended: &Receiver<Infallible>) -> Result<()> {
        let (mut beat, mut heard) = (Instant::now(), Instant::now());
        // It looks before it waits: the first look says where the result is.
        loop {
            let is_due = beat.elapsed() >= HEARTBEAT;
            match self.look(is_due) {
                Ok(Followed::There) => {
                    heard = Instant::now();
                    beat = if is_due { heard } else { beat };
                }
                Ok(Followed::Released) => return Err(released(&self.plan.job)),
                Ok(Followed::Over(error)) => return Err(error),
                Err(error) if heard.elapsed() > STORE_TIMEOUT => return Err(error),
                // The workers go on without the store for a while.
                Err(_) => {}
            }
            let has_ended = ended.recv_timeout(POLL) == Err(RecvTimeoutError::Disconnected);
            if has_ended || self.progress.cancelled() {
                return Ok(());
            }
        }
    }

    /// Looks how the job is doing, and says that the client is alive.
    fn look(&self, is_due: bool) -> Result<Followed> {
        let followed = follow(&self.tables, &self.plan.job, &self.places)?;
        if let Some(error) = unreachable_worker(&self.tables, &self.complaints)? {
            return Ok(Followed::Over(error));
        }
        if is_due && matches!(followed, Followed::There) {
            if let Some(lease) = &self.lease {
                // If it has lapsed, the next look finds the job gone.
                lease.renew(CLIENT_LEASE).map_err(of_store)?;
            }
            show_progress(&self.tables, &self.plan, &self.progress)?;
        }
        Ok(followed)
    }
}
