//! A live job that runs on this worker.
//!
//! Invariant: its folders are opened so that earlier hosts, which may be stopped and hold locks, are not
//! waited for: the numbers of the runs keep hosts apart (whimbrel-jobs).

use super::record::{LiveJobOptions, LiveJobRecord, LiveProgress, progress};
use super::team::Team;
use super::team_runtime::TeamRuntime;
use crate::activity::{Activities, Watch};
use crate::error::{no_thread, of_store};
use crate::records::Tables;
use crossbeam_channel::{Receiver, TryRecvError, bounded};
use datafusion::common::{DataFusionError, Result, internal_err};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, UNIX_EPOCH};
use whimbrel_control::{Transaction, Versioned};
use whimbrel_jobs::store::Access;
use whimbrel_jobs::{DurableJob, Pace, sink, start_with, store};
use whimbrel_plan::References;
use whimbrel_sharded::JobSpec;
use whimbrel_sharded::action::EpochRuntime;

/// A job that begins or runs here. Dropping it stops the job.
pub struct Hosting {
    /// Which attempt of the job it is.
    pub attempt: u32,
    /// Whether it was stopped to be begun again.
    pub begins_again: bool,
    phase: Phase,
    is_stopped: bool,
    /// What was written down of it last.
    written: Option<LiveProgress>,
}

/// How far the start of a job is.
enum Phase {
    /// Its places are opened, which takes as long as they take to answer.
    Starting(Receiver<Result<Started>>),
    Running(Started),
    NotStarted(Arc<DataFusionError>),
}

/// A job that runs, and what lets others see what it does.
struct Started {
    job: DurableJob,
    _watch: Watch,
}

impl Hosting {
    /// Begins a job, or goes on with it from its newest checkpoint; its channels run here, or on the
    /// members of its team. A thread does so, for places that do not answer keep no other job waiting.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no thread.
    pub fn start(
        (name, spec): (&str, Vec<u8>),
        references: &Arc<dyn References>,
        record: &LiveJobRecord,
        team: Option<Team>,
        activities: &Arc<Activities>,
    ) -> Result<Hosting> {
        let (sender, started) = bounded(1);
        let (references, options) = (Arc::clone(references), record.options.clone());
        let (name, activities) = (name.to_string(), Arc::clone(activities));
        let start = move || {
            let started = start_job(&spec, &references, &options, team);
            let started = started.map(|job| Started { _watch: activities.watch(&name, job.progress()), job });
            // Without a receiver, the job is dropped, which stops it.
            let _ = sender.send(started);
        };
        Builder::new().name("start".into()).spawn(start).map_err(no_thread)?;
        let phase = Phase::Starting(started);
        Ok(Hosting { attempt: record.attempt, begins_again: false, phase, is_stopped: false, written: None })
    }

    /// Stops the job.
    pub fn stop(&mut self) {
        self.is_stopped = true;
        if let Phase::Running(started) = &self.phase {
            started.job.stop();
        }
    }

    /// Stops the job, and waits for that, but not for long: how it ended says whoever goes on with it.
    pub fn stop_and_wait(&mut self, patience: Duration) {
        self.stop();
        if let Some(job) = self.job() {
            let _ = job.wait_timeout(patience);
        }
    }

    /// How it has ended; none while it begins or runs.
    pub fn end(&mut self) -> Option<Result<()>> {
        self.look();
        match &self.phase {
            // Its thread stops what it has begun as soon as it finds nobody waiting.
            Phase::Starting(_) => self.is_stopped.then_some(Ok(())),
            Phase::Running(Started { job, .. }) => job.has_ended().then(|| job.wait()),
            Phase::NotStarted(error) => Some(Err(DataFusionError::Shared(Arc::clone(error)))),
        }
    }

    /// Whether it has written a checkpoint.
    pub fn has_checkpoint(&mut self) -> bool {
        self.job().is_some_and(|job| job.checkpointed_at().is_some())
    }

    /// The job, once it has begun.
    fn job(&mut self) -> Option<&DurableJob> {
        self.look();
        match &self.phase {
            Phase::Running(started) => Some(&started.job),
            Phase::Starting(_) | Phase::NotStarted(_) => None,
        }
    }

    /// Looks whether it has begun.
    fn look(&mut self) {
        let Phase::Starting(started) = &self.phase else { return };
        let started = match started.try_recv() {
            Ok(started) => started,
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => internal_err!("the start of a live job panicked"),
        };
        self.phase = started.map_or_else(|error| Phase::NotStarted(Arc::new(error)), Phase::Running);
        if self.is_stopped {
            self.stop();
        }
    }

    /// Writes down how far it is, if its row is as it was read.
    ///
    /// # Errors
    /// Those of the store.
    pub fn report(&mut self, tables: &Tables, name: &str, row: &Versioned<LiveJobRecord>) -> Result<()> {
        let attempt = self.attempt;
        let Some(job) = self.job() else { return Ok(()) };
        let since = job.checkpointed_at().and_then(|when| when.duration_since(UNIX_EPOCH).ok());
        let found = LiveProgress {
            attempt,
            restored_from: job.restored_from(),
            epoch: job.epoch(),
            committed: job.committed(),
            checkpointed: since.and_then(|since| u64::try_from(since.as_millis()).ok()),
        };
        if self.written != Some(found) {
            let report = Transaction::new()
                .when(super::record::jobs(tables).unchanged(name, Some(row.version)))
                .then(progress(tables).put(name, &found).map_err(of_store)?);
            let _ = tables.store.commit(&report).map_err(of_store)?;
            self.written = Some(found);
        }
        Ok(())
    }
}

/// Opens the places of a job and begins it.
fn start_job(
    spec: &[u8],
    references: &Arc<dyn References>,
    options: &LiveJobOptions,
    team: Option<Team>,
) -> Result<DurableJob> {
    let spec = JobSpec::from_bytes(spec)?;
    let store = store::open(&options.checkpoint, Access::Shared)?;
    let sink = sink::open(&options.to, options.format, Access::Shared)?;
    let pace = Pace { every: options.every, stop_when_idle: options.stop_when_idle };
    let stream = spec.stream(references)?;
    let runtime = team.map(|team| TeamRuntime { team, references: Arc::clone(references) });
    let runtime = runtime.as_ref().map(|runtime| runtime as &dyn EpochRuntime);
    start_with(&stream, (&spec.options(), runtime), pace, references, store, sink)
}
