//! What a cluster keeps in its control store.
//!
//! - `secrets`: the certificate of the cluster, with its key;
//! - `workers`: who works, and where its frames can be had; a lease of each says that it is alive;
//! - `members`: which virtual cluster a worker belongs to;
//! - `clusters`: the virtual clusters; `datasets`: the datasets that have a name;
//! - `jobs`: which jobs there are; `specs`: what they compute;
//! - `channels/<job>`: for each channel, which worker runs it, and whether it has ended;
//! - `choices/<job>`: the lineage of channels that read out of turn;
//! - `excluded/<job>`: the workers that others could not reach, which the job does without;
//! - `runs/<job>`: what each run of a channel has done; `losses/<job>`: which workers were lost with one: for
//!   those who look on;
//! - `live/…`: the live jobs, see `live/record.rs`.
//!
//! Invariant: a row of `channels` is changed by the worker that runs the channel, as long as the row names
//! it, and by whoever holds the recovery lease of the job. Both change the version that they have read.

use crate::error::of_store;
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use whimbrel_control::{ControlStore, Effect, Log, Table, Transaction};
use whimbrel_sharded::error::Failure;

/// How long a worker is taken for alive after it was heard of last.
pub const WORKER_LEASE: Duration = Duration::from_secs(3);

/// How long a client is taken for alive after it was heard of last.
pub const CLIENT_LEASE: Duration = Duration::from_secs(5);

/// How long a recovery may take before another one is begun.
pub const RECOVERY_LEASE: Duration = Duration::from_secs(10);

/// How long a worker is the lookout after it has looked around last.
pub const LOOKOUT_LEASE: Duration = Duration::from_millis(1500);

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

/// The certificate that the processes of a cluster show each other, and its key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRecord {
    /// The certificate, as PEM.
    pub certificate: String,
    /// Its key, as PEM.
    pub key: String,
}

impl fmt::Debug for SecretRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretRecord")
    }
}

/// What was decided about a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The virtual cluster that it belongs to, if to any.
    pub cluster: Option<String>,
    /// Whether it is given no more channels, so that it can be stopped once it has nothing to do.
    pub is_draining: bool,
}

/// A virtual cluster: a group of workers with a name (quill.txt §5.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// How many workers it is to have.
    pub workers: u32,
}

/// A dataset that applications share (quill.txt §5.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetRecord {
    /// The job whose result it is; none: whoever reads it computes it.
    pub job: Option<String>,
    /// The plan that reads it, as bytes.
    pub plan: ByteBuf,
}

/// A job that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// How long it is there.
    pub lifetime: Lifetime,
    /// How its channels are scheduled.
    pub schedule: Schedule,
    /// The virtual cluster that runs what has no location of its own.
    pub cluster: Option<String>,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted: u64,
    /// The jobs whose results it reads.
    pub inputs: Vec<String>,
    /// What has become of it.
    pub state: JobState,
}

/// How long a job and its result are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// As long as its client is heard of.
    Client,
    /// So many seconds after it has ended.
    Seconds(u64),
    /// Until it is removed.
    Unlimited,
}

/// What has become of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// It runs.
    Running,
    /// Its result is there.
    Ended,
    /// It has failed.
    Failed(Failure),
    /// Its result was given up. It can be computed again, for jobs that read it.
    Released,
}

/// How the channels of a job are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Whether all stages run at once; otherwise a stage begins when those that it reads have ended.
    pub is_pipelined: bool,
    /// Whether a channel reads what is there if the queue whose turn it is has nothing yet. Its choices are
    /// written down: they are its lineage.
    pub is_dynamic: bool,
}

impl Default for Schedule {
    /// All stages at once, and all queues in turns: rows come in the same order in every run.
    fn default() -> Schedule {
        Schedule { is_pipelined: true, is_dynamic: false }
    }
}

impl JobRecord {
    /// Whether the job is to be removed; `is_leased` says whether its lease is held.
    pub fn is_expired(&self, is_leased: bool) -> bool {
        match (self.lifetime, &self.state) {
            (Lifetime::Client, _) => !is_leased,
            (Lifetime::Seconds(_), JobState::Ended | JobState::Failed(_)) => !is_leased,
            (Lifetime::Seconds(_), JobState::Running | JobState::Released) | (Lifetime::Unlimited, _) => {
                false
            }
        }
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

/// A queue that a channel has read out of turn: a record of its lineage (quokka.txt §III).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The number of the channel.
    pub channel: u64,
    /// How many choices the channel had made before.
    pub position: u64,
    /// The number of the queue.
    pub queue: u64,
}

/// One run of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The number of the channel.
    pub channel: u64,
    /// How often the channel was begun before.
    pub attempt: u32,
    /// The worker.
    pub worker: String,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// When this was written, in milliseconds since 1970.
    pub seen: u64,
    /// Whether it has ended.
    pub ended: bool,
    /// How many steps have handed out something.
    pub tasks: u64,
    /// How many rows it has taken.
    pub rows: u64,
    /// How many rows came too late for it.
    pub late_rows: u64,
    /// How many bytes it has fetched from other workers.
    pub moved_bytes: u64,
    /// How many bytes of what it sent are on the disk of its worker.
    pub spilled_bytes: u64,
}

/// The tables of a cluster.
#[derive(Clone)]
pub struct Tables {
    /// The store that has them.
    pub store: Arc<dyn ControlStore>,
}

impl Tables {
    /// Removes a job, and tells the workers. Of one whose result other jobs have read, the lineage stays as
    /// long as they do: it is part of theirs.
    ///
    /// # Errors
    /// Those of the store.
    pub fn remove_job(&self, job: &str) -> Result<()> {
        let jobs = self.jobs().rows().map_err(of_store)?;
        let reads = |name: &str, from: &str| {
            jobs.iter()
                .any(|(other, row)| other != from && row.value.inputs.iter().any(|input| input == name))
        };
        let Some((_, row)) = jobs.iter().find(|(name, _)| name == job) else { return Ok(()) };
        let (record, version) = (&row.value, row.version);
        if reads(job, job) {
            let released = JobRecord { state: JobState::Released, ..record.clone() };
            let release = Transaction::new()
                .when(self.jobs().unchanged(job, Some(version)))
                .then(self.jobs().put(job, &released).map_err(of_store)?)
                .then(Effect::Release { lease: job_lease(job) })
                .then(news(job));
            return self.store.commit(&release).map(|_| ()).map_err(of_store);
        }
        let _ = self.store.commit(&self.removal(job)).map_err(of_store)?;
        // A dataset is there until it is removed; if its job is not, it was, and is here for its readers.
        let is_removed = |input: &&String| {
            jobs.iter().any(|(name, row)| {
                name == *input
                    && (row.value.state == JobState::Released || row.value.lifetime != Lifetime::Unlimited)
            })
        };
        let unread = record.inputs.iter().filter(is_removed).filter(|input| !reads(input, job));
        unread.into_iter().try_for_each(|input| self.remove_job(input))
    }

    /// What removes a job that nobody else reads, and tells the workers.
    fn removal(&self, job: &str) -> Transaction {
        Transaction::new()
            .then(self.jobs().delete(job))
            .then(self.specs().delete(job))
            .then(Effect::RemoveTable { table: channels_of(job) })
            .then(Effect::RemoveTable { table: runs_of(job) })
            .then(Effect::RemoveTable { table: losses_of(job) })
            .then(Effect::RemoveTable { table: excluded_from(job) })
            .then(Effect::RemoveLog { log: choices_of(job) })
            .then(Effect::Release { lease: job_lease(job) })
            .then(news(job))
    }

    /// What changes the state of a job that is as it was read. A job that is kept for a time is from then on.
    ///
    /// # Errors
    /// `Plan` if the record is too large.
    pub fn set_state(
        &self,
        job: &str,
        record: &JobRecord,
        version: u64,
        state: JobState,
    ) -> Result<Transaction> {
        let changed = JobRecord { state, ..record.clone() };
        let mut transaction = Transaction::new()
            .when(self.jobs().unchanged(job, Some(version)))
            .then(self.jobs().put(job, &changed).map_err(of_store)?)
            .then(news(job));
        if let Lifetime::Seconds(seconds) = record.lifetime {
            let (lease, ttl) = (job_lease(job), Duration::from_secs(seconds.max(1)));
            transaction = transaction.then(Effect::Grant { lease, holder: job.to_string(), ttl });
        }
        Ok(transaction)
    }

    /// The secrets of the cluster.
    pub fn secrets(&self) -> Table<SecretRecord> {
        self.table("secrets")
    }

    /// The workers.
    pub fn workers(&self) -> Table<WorkerRecord> {
        self.table("workers")
    }

    /// What was decided about workers.
    pub fn members(&self) -> Table<Membership> {
        self.table("members")
    }

    /// The virtual clusters.
    pub fn clusters(&self) -> Table<ClusterRecord> {
        self.table("clusters")
    }

    /// The datasets.
    pub fn datasets(&self) -> Table<DatasetRecord> {
        self.table("datasets")
    }

    /// The jobs.
    pub fn jobs(&self) -> Table<JobRecord> {
        self.table("jobs")
    }

    /// What the jobs compute, as the bytes of their specifications.
    pub fn specs(&self) -> Table<ByteBuf> {
        self.table("specs")
    }

    /// The channels of a job, in the order of their numbers.
    pub fn channels(&self, job: &str) -> Table<ChannelRecord> {
        self.table(&channels_of(job))
    }

    /// The lineage of a job.
    pub fn choices(&self, job: &str) -> Log<Choice> {
        Log::new(Arc::clone(&self.store), &choices_of(job))
    }

    /// The runs of the channels of a job.
    pub fn runs(&self, job: &str) -> Table<RunRecord> {
        self.table(&runs_of(job))
    }

    /// The workers that a job does without, each with the name of the one that could not reach it.
    pub fn excluded(&self, job: &str) -> Table<String> {
        self.table(&excluded_from(job))
    }

    /// The workers that were lost while a job needed what they had, and when that was found out, in
    /// milliseconds since 1970.
    pub fn losses(&self, job: &str) -> Table<u64> {
        self.table(&losses_of(job))
    }

    fn table<T: Serialize + serde::de::DeserializeOwned>(&self, name: &str) -> Table<T> {
        Table::new(Arc::clone(&self.store), name)
    }
}

/// Tells the workers of a job.
pub fn news(job: &str) -> Effect {
    Effect::Publish { topic: NEWS.to_string(), payload: job.into() }
}

fn channels_of(job: &str) -> String {
    format!("channels/{job}")
}

fn choices_of(job: &str) -> String {
    format!("choices/{job}")
}

fn runs_of(job: &str) -> String {
    format!("runs/{job}")
}

fn excluded_from(job: &str) -> String {
    format!("excluded/{job}")
}

fn losses_of(job: &str) -> String {
    format!("losses/{job}")
}

/// The key of a channel in its table: keys are in the order of the numbers.
pub fn channel_key(channel: usize) -> String {
    format!("{channel:08}")
}

/// The key of a run in its table.
pub fn run_key(channel: usize, attempt: u32) -> String {
    format!("{channel:08}/{attempt:06}")
}

/// The lease of a worker.
pub fn worker_lease(worker: &str) -> String {
    format!("worker/{worker}")
}

/// The lease of a job: its client holds it, or it runs out some time after the job has ended.
pub fn job_lease(job: &str) -> String {
    format!("job/{job}")
}

/// The lease of the worker that finds out who is lost.
pub fn lookout_lease() -> &'static str {
    "lookout"
}

/// The lease under which lost channels of a job are given to others.
pub fn recovery_lease(job: &str) -> String {
    format!("recovery/{job}")
}

/// The time, in milliseconds since 1970. It is shown, and nothing is decided by it.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
