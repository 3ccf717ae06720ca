//! What a cluster keeps in its control store.
//!
//! - `workers`: who works, and where its frames can be had; a lease of each says that it is alive;
//! - `jobs`: which jobs there are; `specs`: what they compute;
//! - `channels/<job>`: for each channel, which worker runs it, and whether it has ended.
//!
//! Invariant: a row of `channels` is changed by the worker that runs the channel, as long as the row names
//! it, and by whoever holds the recovery lease of the job. Both change the version that they have read.

use crate::error::of_store;
use datafusion::common::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use whimbrel_control::{ControlStore, Effect, Table, Transaction};
use whimbrel_sharded::error::ErrorKind;

/// How long a worker is taken for alive after it was heard of last.
pub const WORKER_LEASE: Duration = Duration::from_secs(3);

/// How long a client is taken for alive after it was heard of last.
pub const CLIENT_LEASE: Duration = Duration::from_secs(5);

/// How long a recovery may take before another one is begun.
pub const RECOVERY_LEASE: Duration = Duration::from_secs(10);

/// The release of this process. All of a cluster run the same one.
pub const ENGINE: &str = env!("CARGO_PKG_VERSION");

/// Where news of jobs are told.
pub const NEWS: &str = "news";

/// A worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// Where its frames can be had: a host and a port.
    pub address: String,
    /// Its process.
    pub process: u32,
    /// How many channels it runs at the same time without one waiting for another.
    pub threads: u32,
    /// The release that it runs.
    pub engine: String,
}

/// A job that is there. Its client removes it when it has the result, or gives up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Why it has failed, if it has.
    pub failure: Option<Failure>,
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What has to be done about it.
    pub kind: ErrorKind,
    /// The message.
    pub message: String,
}

impl Failure {
    /// The failure that an error is.
    pub fn of(error: &DataFusionError) -> Failure {
        Failure { kind: ErrorKind::of(error), message: message(error) }
    }

    /// The error that it was.
    pub fn error(&self) -> DataFusionError {
        let message = self.message.clone();
        match self.kind {
            ErrorKind::Invalid => DataFusionError::Plan(message),
            ErrorKind::Data => DataFusionError::Execution(message),
            ErrorKind::ResourceExhausted => DataFusionError::ResourcesExhausted(message),
            ErrorKind::Internal => DataFusionError::Internal(message),
        }
    }
}

/// The message of an error, without the names of its kinds.
fn message(error: &DataFusionError) -> String {
    match error {
        DataFusionError::Shared(error) => message(error),
        DataFusionError::Context(context, error) => format!("{context}: {}", message(error)),
        other => other.message().into_owned(),
    }
}

/// A channel of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRecord {
    /// The worker that runs it, or has run it, and has what it sent.
    pub worker: String,
    /// How often it was begun before.
    pub attempt: u32,
    /// Whether it has sent all that it ever will.
    pub ended: bool,
}

/// The tables of a cluster.
#[derive(Clone)]
pub struct Tables {
    /// The store that has them.
    pub store: Arc<dyn ControlStore>,
}

impl Tables {
    /// Removes a job, and tells the workers.
    ///
    /// # Errors
    /// Those of the store.
    pub fn remove_job(&self, job: &str) -> Result<()> {
        let remove = Transaction::new()
            .then(self.jobs().delete(job))
            .then(self.specs().delete(job))
            .then(Effect::RemoveTable { table: channels_of(job) })
            .then(Effect::Release { lease: client_lease(job) })
            .then(Effect::Publish { topic: NEWS.to_string(), payload: job.into() });
        self.store.commit(&remove).map(|_| ()).map_err(of_store)
    }

    /// The workers.
    pub fn workers(&self) -> Table<WorkerRecord> {
        Table::new(Arc::clone(&self.store), "workers")
    }

    /// The jobs.
    pub fn jobs(&self) -> Table<JobRecord> {
        Table::new(Arc::clone(&self.store), "jobs")
    }

    /// What the jobs compute, as the bytes of their specifications.
    pub fn specs(&self) -> Table<Vec<u8>> {
        Table::new(Arc::clone(&self.store), "specs")
    }

    /// The channels of a job.
    pub fn channels(&self, job: &str) -> Table<ChannelRecord> {
        Table::new(Arc::clone(&self.store), &channels_of(job))
    }
}

/// The name of the table of the channels of a job.
pub fn channels_of(job: &str) -> String {
    format!("channels/{job}")
}

/// The key of a channel in its table: keys are in the order of the numbers.
pub fn channel_key(channel: usize) -> String {
    format!("{channel:08}")
}

/// The lease of a worker.
pub fn worker_lease(worker: &str) -> String {
    format!("worker/{worker}")
}

/// The lease of the client of a job.
pub fn client_lease(job: &str) -> String {
    format!("client/{job}")
}

/// The lease under which lost channels of a job are given to others.
pub fn recovery_lease(job: &str) -> String {
    format!("recovery/{job}")
}
