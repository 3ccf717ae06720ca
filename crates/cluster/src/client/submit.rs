//! New jobs.

use crate::connection::Connection;
use crate::dataset::ClusterDataset;
use crate::error::of_store;
use crate::job::ClusterJob;
use crate::live_workers::{LiveWorker, live_workers, pools};
use crate::placement::place;
use crate::plan::Plan;
use crate::records::{
    CLIENT_LEASE, ChannelRecord, ENGINE, JobRecord, JobState, Lifetime, Schedule, Tables, channel_key,
    job_lease, news, now,
};
use datafusion::common::{Result, exec_err, plan_err};
use serde_bytes::ByteBuf;
use std::sync::Arc;
use whimbrel_control::{Effect, Lease, Outcome, Token, Transaction, TransactionId};
use whimbrel_plan::{References, Stream};
use whimbrel_sharded::stage::Origin;
use whimbrel_sharded::{JobSpec, Memory, Options};

/// For how many seconds a result is kept at most: leases last no longer.
const MOST_KEPT: u64 = 365 * 24 * 60 * 60;

/// A job that was written down.
pub struct Submitted {
    /// The job.
    pub job: ClusterJob,
    /// Its lease, if it ends with its client.
    pub lease: Option<Lease>,
}

/// Writes down a job, which begins then.
///
/// # Errors
/// `Plan` if the query cannot run on a cluster; `Execution` if there are no workers, or of another release.
pub fn submit(
    connection: &Arc<Connection>,
    references: &Arc<dyn References>,
    cluster: Option<&str>,
    schedule: Schedule,
    stream: &Stream,
    options: &Options,
    lifetime: Lifetime,
) -> Result<Submitted> {
    if !stream.properties().bounded {
        return plan_err!(
            "a cluster runs queries that end, and this one reads a source that does not; run it in this process"
        );
    }
    connection.check_process()?;
    if let Lifetime::Seconds(seconds) = lifetime
        && !(1..=MOST_KEPT).contains(&seconds)
    {
        return plan_err!(
            "a result is kept for a second at least and a year at most, not for {seconds} seconds"
        );
    }
    // What a channel hands out must not depend on others, so that it can run again.
    let memory = match options.memory {
        Memory::Query(bytes) => Memory::Channel(bytes),
        memory => memory,
    };
    let spec = JobSpec::of(stream, &Options { memory, ..options.clone() }, references)?;
    let name = format!("{:016x}", TransactionId::random().0 as u64);
    let plan = Plan::of(&name, &spec, cluster, references)?;
    let stages = plan.programs.stages().stages.len();
    (0..stages).try_for_each(|stage| plan.programs.check_replayable(stage))?;
    let live = live_workers(&connection.tables)?;
    check_workers(&live, &connection.tables.store.describe())?;
    let channels = place(&plan.topology, &plan.locations, &pools(&live))?;
    let (cluster, submitted) = (cluster.map(str::to_string), now());
    let inputs = inputs(&plan);
    let record = JobRecord { lifetime, schedule, cluster, submitted, inputs, state: JobState::Running };
    let lease = write(&connection.tables, &name, &ByteBuf::from(spec.to_bytes()?), &record, &channels)?;
    Ok(Submitted { job: ClusterJob::of(connection, references, Arc::new(plan)), lease })
}

/// The jobs whose results a plan reads.
fn inputs(plan: &Plan) -> Vec<String> {
    let stages = &plan.programs.stages().stages;
    let mut inputs = Vec::new();
    for input in stages.iter().flat_map(|stage| &stage.inputs) {
        if let Origin::Scan(scan) = &input.origin
            && let Some(dataset) = ClusterDataset::behind(scan.source.as_ref())
        {
            inputs.push(dataset.job().name().to_string());
        }
    }
    inputs.sort();
    inputs.dedup();
    inputs
}

/// Checks that there are workers, of this release.
fn check_workers(live: &[LiveWorker], store: &str) -> Result<()> {
    if live.is_empty() {
        return exec_err!("{store} has no workers; start one with `whimbrel worker`");
    }
    match live.iter().find(|worker| worker.record.engine != ENGINE) {
        Some(other) => exec_err!(
            "the worker at {} runs release {}, and this is {ENGINE}; use one release in a cluster",
            other.record.address,
            other.record.engine
        ),
        None => Ok(()),
    }
}

/// Puts a job into the tables, and tells the workers; the lease of the job, if it ends with its client.
///
/// # Errors
/// Those of the store: the job may be there then.
pub fn write(
    tables: &Tables,
    job: &str,
    spec: &ByteBuf,
    record: &JobRecord,
    channels: &[ChannelRecord],
) -> Result<Option<Lease>> {
    let mut transaction = Transaction::new()
        .then(tables.specs().put(job, spec).map_err(of_store)?)
        .then(tables.jobs().put(job, record).map_err(of_store)?);
    let lease = job_lease(job);
    if record.lifetime == Lifetime::Client {
        let grant = Effect::Grant { lease: lease.clone(), holder: job.to_string(), ttl: CLIENT_LEASE };
        transaction = transaction.then(grant);
    }
    for (channel, record) in channels.iter().enumerate() {
        let put = tables.channels(job).put(&channel_key(channel), record);
        transaction = transaction.then(put.map_err(of_store)?);
    }
    match tables.store.commit(&transaction.then(news(job))).map_err(of_store)? {
        Outcome::Committed { version, .. } => {
            Ok((record.lifetime == Lifetime::Client)
                .then(|| Lease::of(&tables.store, &lease, Token(version))))
        }
        Outcome::Conflict { .. } => exec_err!("{} refused a job", tables.store.describe()),
    }
}
