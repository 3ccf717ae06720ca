//! What the control store has of live jobs.
//!
//! - `live/jobs`: where each writes, who hosts it, and what has become of it; its plan is in `specs`;
//! - `live/progress`: how far its host is: for those who look on.
//!
//! Invariant: a row of `live/jobs` is changed by its host, by a worker that found the host's lease lapsed,
//! and by a client that stops the job. Each changes the version that it has read.

use crate::error::of_store;
use crate::records::{Tables, news, now};
use datafusion::common::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use whimbrel_control::{Outcome, Table, Transaction, Versioned};
use whimbrel_jobs::sink::FolderFormat;
use whimbrel_sharded::error::Failure;

/// How a live job is kept, and where its results go. All workers have to reach both places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveJobOptions {
    /// Where its results go: a folder, here or in an object store, or a table of PostgreSQL, by its URL.
    pub to: String,
    /// The format of the files in a folder.
    pub format: Option<FolderFormat>,
    /// Where its state is: a folder, or the URL of one in an object store.
    pub checkpoint: String,
    /// The time between two checkpoints.
    pub every: Duration,
    /// After how long without anything new the job ends.
    pub stop_when_idle: Option<Duration>,
}

/// A live job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveJobRecord {
    /// How it is kept.
    pub options: LiveJobOptions,
    /// The virtual cluster whose workers may host it; none: those that are free.
    pub cluster: Option<String>,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted: u64,
    /// The worker that hosts it, or was its host last.
    pub host: Option<String>,
    /// How often it was begun by a host.
    pub attempt: u32,
    /// How many channels its widest stage has.
    pub width: u32,
    /// The workers that run its channels in this attempt: that of a channel has the place of its number in
    /// its stage, in turns.
    pub slots: Vec<String>,
    /// Whether a checkpoint of it was written: it has reached all its places once.
    pub has_checkpoint: bool,
    /// Why it waits, if it lacks memory, disk or a service; until its first checkpoint after that.
    pub postponed: Option<Postponement>,
    /// What has become of it.
    pub state: LiveState,
}

/// Why and how long a live job waits that lacks memory, disk or a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Postponement {
    /// What it lacks.
    pub failure: Failure,
    /// How often it has failed of that since its last checkpoint.
    pub times: u32,
    /// When it is begun again, in milliseconds since 1970.
    pub until: u64,
}

impl Postponement {
    /// The wait after another failure: twice as long each time.
    pub fn after(earlier: Option<&Postponement>, failure: Failure, now: u64) -> Postponement {
        let times = earlier.map_or(0, |earlier| earlier.times) + 1;
        let wait = FIRST_WAIT.saturating_mul(1 << (times - 1).min(10)).min(LONGEST_WAIT);
        Postponement { failure, times, until: now + wait.as_millis() as u64 }
    }
}

/// How long a job waits for what it lacks, the first time.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

/// What has become of a live job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LiveState {
    /// It runs, or waits for a worker.
    Running,
    /// A client has asked to stop it.
    Stopping,
    /// It was stopped.
    Stopped,
    /// Its sources have ended, or had nothing new for long enough.
    Ended,
    /// It has failed, and is not tried again.
    Failed(Failure),
}

impl LiveJobRecord {
    /// The workers that run its channels, each once, in the order in which they come first.
    pub fn members(&self) -> Vec<&str> {
        let mut members: Vec<&str> = Vec::new();
        for slot in &self.slots {
            if !members.contains(&slot.as_str()) {
                members.push(slot);
            }
        }
        members
    }

    /// Whether a worker hosts it, or runs channels of it.
    pub fn is_at(&self, worker: &str) -> bool {
        self.host.as_deref() == Some(worker) || self.slots.iter().any(|slot| slot == worker)
    }

    /// Whether its channels run on several workers.
    pub fn is_shared(&self) -> bool {
        self.members().len() > 1
    }
}

impl LiveState {
    /// Whether its host still works on it.
    pub fn is_active(&self) -> bool {
        matches!(self, LiveState::Running | LiveState::Stopping)
    }
}

/// How far the host of a live job is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveProgress {
    /// Which attempt of the job this is of.
    pub attempt: u32,
    /// The epoch of the checkpoint that it went on from.
    pub restored_from: Option<u64>,
    /// The last epoch that was cut.
    pub epoch: u64,
    /// The last epoch that the sink has.
    pub committed: u64,
    /// When its last checkpoint was written, in milliseconds since 1970.
    pub checkpointed: Option<u64>,
}

/// The live jobs.
pub fn jobs(tables: &Tables) -> Table<LiveJobRecord> {
    Table::new(Arc::clone(&tables.store), "live/jobs")
}

/// How far their hosts are.
pub fn progress(tables: &Tables) -> Table<LiveProgress> {
    Table::new(Arc::clone(&tables.store), "live/progress")
}

/// What is known of a live job, and the specification that its hosts read.
pub fn insertion(
    tables: &Tables,
    job: &str,
    options: LiveJobOptions,
    cluster: Option<String>,
    (spec, width): (Vec<u8>, u32),
) -> Result<Transaction> {
    let record = LiveJobRecord {
        options,
        cluster,
        submitted: now(),
        host: None,
        attempt: 0,
        width,
        slots: vec![],
        has_checkpoint: false,
        postponed: None,
        state: LiveState::Running,
    };
    Ok(Transaction::new()
        .when(jobs(tables).unchanged(job, None))
        .then(tables.specs().put(job, &spec.into()).map_err(of_store)?)
        .then(jobs(tables).put(job, &record).map_err(of_store)?)
        .then(news(job)))
}

/// Changes a row that is as it was read; none if it is not. A store that is away did that or did not: the row
/// says which.
pub fn replace(
    tables: &Tables,
    job: &str,
    row: &Versioned<LiveJobRecord>,
    changed: LiveJobRecord,
) -> Result<Option<Versioned<LiveJobRecord>>> {
    let change = Transaction::new()
        .when(jobs(tables).unchanged(job, Some(row.version)))
        .then(jobs(tables).put(job, &changed).map_err(of_store)?)
        .then(news(job));
    match tables.store.commit(&change).map_err(of_store)? {
        Outcome::Committed { version, .. } => Ok(Some(Versioned { version, value: changed })),
        Outcome::Conflict { .. } => Ok(None),
    }
}

/// The row of a live job.
pub fn find(tables: &Tables, job: &str) -> Result<Versioned<LiveJobRecord>> {
    let row = jobs(tables).get(job).map_err(of_store)?;
    row.ok_or_else(|| DataFusionError::Execution(format!("the cluster has no live job {job}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_become_longer() {
        let failure = Failure::of(&DataFusionError::ResourcesExhausted("No space left on device".into()));
        let mut last = None;
        for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
            let next = Postponement::after(last.as_ref(), failure.clone(), 1_000);
            assert_eq!(next.until, 1_000 + seconds * 1_000);
            last = Some(next);
        }
        assert_eq!(last.map(|last| last.times), Some(8));
    }
}
