//! A job as its caller sees it.

use crate::checkpoint::Checkpoint;
use crate::committer::Committer;
use crate::coordinator::{Coordinator, End, Pace, Resumed, Shared};
use crate::identity::Identity;
use crate::recovery::{identify, recover};
use crate::sink::Sink;
use crate::store::{self, Access, StateStore};
use crate::tape::Tape;
use crossbeam_channel::{Receiver, Sender, bounded};
use datafusion::common::{DataFusionError, Result};
use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, SystemTime};
use whimbrel_plan::{References, Stream};
use whimbrel_sharded::action::{EpochRuntime, check_in_epochs, in_epochs, schema};
use whimbrel_sharded::{Job, Options, Progress};

/// How a job is kept.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// Where its state is: a folder, or the URL of one in an object store.
    pub checkpoint: String,
    /// The time between two checkpoints.
    pub every: Duration,
    /// After how long without anything new the job ends; its state stays, so that it can go on.
    pub stop_when_idle: Option<Duration>,
}

/// A job that runs in the background. Dropping it stops the job; its state stays.
pub struct DurableJob {
    progress: Progress,
    shared: Arc<Shared>,
    restored_from: Option<u64>,
    damaged: usize,
    ended: Receiver<Infallible>,
    outcome: Arc<Mutex<Option<Arc<DataFusionError>>>>,
}

/// Begins a job, or goes on with the one whose state is there.
///
/// # Errors
/// `Plan` if a source cannot be read again, or the sink has results of another job; `Execution` if the
/// state is of another query or release, is in use, or cannot be used with this sink; as
/// [`run`](whimbrel_sharded::run).
pub fn start(
    stream: &Stream,
    options: &Options,
    job: &JobOptions,
    references: &Arc<dyn References>,
    sink: impl FnOnce(&Arc<dyn StateStore>) -> Result<Box<dyn Sink>>,
) -> Result<DurableJob> {
    check_in_epochs(stream)?;
    let store = store::open(&job.checkpoint, Access::Exclusive)?;
    let sink = sink(&store)?;
    let pace = Pace { every: job.every, stop_when_idle: job.stop_when_idle };
    start_with(stream, (options, None), pace, references, store, sink)
}

/// The same with a store of one's own, and where its channels run: in this process, or on another runtime.
///
/// # Errors
/// As [`start`]; those of the runtime.
pub fn start_with(
    stream: &Stream,
    (options, runtime): (&Options, Option<&dyn EpochRuntime>),
    pace: Pace,
    references: &Arc<dyn References>,
    store: Arc<dyn StateStore>,
    mut sink: Box<dyn Sink>,
) -> Result<DurableJob> {
    let identity = |job, stream: &Stream| Identity::of(job, stream, options, references);
    let (identity, stream) = identify(store.as_ref(), stream, identity)?;
    let stream = &stream;
    let shared = Arc::<Shared>::default();
    let schema = schema(stream, options);
    let mut recovery = recover(&store, &identity, sink.as_mut(), schema, &shared.is_stopped)?;
    let restored_from = recovery.checkpoint.as_ref().map(|checkpoint| checkpoint.epoch);
    let (resumed, states) = match recovery.checkpoint.take() {
        Some(Checkpoint { epoch, positions, states }) => {
            let ended_lanes = states.iter().map(|(channel, state)| (*channel, state.ended.clone())).collect();
            (Resumed { epoch, positions: Some(positions), ended_lanes }, Some(states))
        }
        None => (Resumed::default(), None),
    };
    let (query_job, query) = in_epochs(stream, options, states, runtime)?;
    let committer = Committer::start(sink, recovery.committed)?;
    let (sender, ended) = bounded(0);
    let job = DurableJob {
        progress: query_job.progress().clone(),
        shared: Arc::clone(&shared),
        restored_from,
        damaged: recovery.damaged,
        ended,
        outcome: Arc::default(),
    };
    let outcome = Arc::clone(&job.outcome);
    let work = move || {
        let coordinator =
            Coordinator::new(query, resumed, recovery, committer, Tape::new(store), pace, shared);
        let done = run(query_job, coordinator);
        let failed = done.err().map(|error| match error {
            DataFusionError::Shared(error) => error,
            error => Arc::new(error),
        });
        *outcome.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        drop::<Sender<Infallible>>(sender);
    };
    let thread = Builder::new().name("job".into()).spawn(work);
    thread.map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))?;
    Ok(job)
}

/// Runs the query and its coordinator, each to its end.
fn run(job: Job, coordinator: Result<Coordinator>) -> Result<()> {
    let progress = job.progress().clone();
    let (sender, running) = bounded::<Job>(1);
    let waiter = Builder::new().name("query".into()).spawn(move || match running.recv() {
        Ok(job) => job.wait(),
        Err(_) => Ok(()),
    });
    let waiter = waiter.map_err(|error| DataFusionError::ResourcesExhausted(error.to_string()))?;
    // The thread is there, and takes the job.
    let _ = sender.send(job);
    let coordinated = coordinator.and_then(Coordinator::run);
    if !matches!(coordinated, Ok(End::Query)) {
        progress.cancel();
    }
    let queried = waiter.join();
    let queried = queried.unwrap_or_else(|_| Err(DataFusionError::Internal("the query panicked".into())));
    coordinated.and(queried)
}

impl DurableJob {
    /// The rows that it has read and handed out, since it was begun or went on.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The epoch of the checkpoint that it went on from; none if it began at the beginning.
    pub fn restored_from(&self) -> Option<u64> {
        self.restored_from
    }

    /// How many checkpoints were damaged, so that an older one was taken.
    pub fn damaged_checkpoints(&self) -> usize {
        self.damaged
    }

    /// When the last checkpoint of this run was written.
    pub fn checkpointed_at(&self) -> Option<SystemTime> {
        let last = self.shared.checkpointed.lock().unwrap_or_else(PoisonError::into_inner);
        last.map(|(_, when)| when)
    }

    /// The last epoch that was cut.
    pub fn epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::Acquire)
    }

    /// The last epoch that the sink has.
    pub fn committed(&self) -> u64 {
        self.shared.committed.load(Ordering::Acquire)
    }

    /// Stops the job; it can go on from its state.
    pub fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::Release);
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.ended.try_recv(), Err(crossbeam_channel::TryRecvError::Disconnected))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The first error of the query, the sink or the store.
    pub fn wait(&self) -> Result<()> {
        // Nothing is ever sent.
        let _ = self.ended.recv();
        self.outcome()
    }

    /// Waits for its end, but not longer than this; whether it has ended.
    ///
    /// # Errors
    /// As [`wait`](DurableJob::wait).
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        let ended = self.ended.recv_timeout(timeout);
        match ended {
            Err(crossbeam_channel::RecvTimeoutError::Disconnected) => self.outcome().map(|()| true),
            _ => Ok(false),
        }
    }

    fn outcome(&self) -> Result<()> {
        match &*self.outcome.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(DataFusionError::Shared(Arc::clone(error))),
            None => Ok(()),
        }
    }
}

impl Drop for DurableJob {
    fn drop(&mut self) {
        self.stop();
    }
}
