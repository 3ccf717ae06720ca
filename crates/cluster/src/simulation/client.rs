//! A client: submits jobs one after the other, and checks that it gets each row once.

use super::channel::{ROWS, row};
use super::environment::Environment;
use crate::backup::QueueName;
use crate::client::submit::write;
use crate::follow::{Followed, follow, record};
use crate::live_workers::{live_workers, pools};
use crate::placement::place;
use crate::plan::Plan;
use crate::pull::Places;
use crate::records::{CLIENT_LEASE, JobRecord, JobState, Lifetime, Schedule, Tables};
use datafusion::common::Result;
use serde_bytes::ByteBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use whimbrel_control::Lease;
use whimbrel_session::PlanReferences;
use whimbrel_sharded::JobSpec;

/// How often it says that it is alive.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// A client.
pub struct Client {
    pub number: usize,
    pub environment: Arc<Environment>,
    pub tables: Tables,
    pub spec: Arc<JobSpec>,
    /// How many jobs it has tried to submit.
    pub submitted: usize,
    /// How many jobs it has got the result of.
    pub completed: usize,
    pub job: Option<ClientJob>,
}

/// A job that it waits for.
pub struct ClientJob {
    name: String,
    plan: Arc<Plan>,
    lease: Option<Lease>,
    places: watch::Sender<Places>,
    /// When it was last known that the lease was held.
    heard: Duration,
    due: Duration,
    /// Whether it reads the result only when the job has ended.
    waits: bool,
    /// The shards of the result: the channel, the number of the next frame, and whether all were read.
    shards: Vec<(usize, u64, bool)>,
    rows: Vec<u64>,
}

impl Client {
    /// Does one thing.
    pub fn step(&mut self) {
        let outcome = match self.job.take() {
            None if self.environment.has_faults() || self.completed == 0 => self.submit(),
            None => Ok(()),
            Some(job) => self.follow(job),
        };
        // The store is away: the same is tried again.
        drop(outcome);
    }

    /// Whether it waits for nothing.
    pub fn is_idle(&self) -> bool {
        self.job.is_none() && self.completed > 0
    }

    fn submit(&mut self) -> Result<()> {
        let live = live_workers(&self.tables)?;
        if live.is_empty() {
            return Ok(());
        }
        self.submitted += 1;
        let name = format!("job-{}-{}", self.number, self.submitted);
        let plan = Plan::of(&name, &self.spec, None, &(Arc::new(PlanReferences) as _))?;
        let channels = place(&plan.topology, &plan.locations, &pools(&live))?;
        let happens = |once_in| self.environment.happens(once_in);
        let schedule = Schedule { is_pipelined: !happens(4), is_dynamic: happens(2) };
        let lifetime = if happens(3) { Lifetime::Unlimited } else { Lifetime::Client };
        let (cluster, submitted, inputs) = (None, 0, vec![]);
        let record = JobRecord { lifetime, schedule, cluster, submitted, inputs, state: JobState::Running };
        self.environment.note(format!("{name}: {lifetime:?}, {schedule:?}"));
        let heard = self.environment.now();
        let lease = write(&self.tables, &name, &ByteBuf::from(self.spec.to_bytes()?), &record, &channels)?;
        let shards = plan.result().into_iter().map(|channel| (channel, 0, false)).collect();
        let (plan, places, due, rows) = (Arc::new(plan), watch::Sender::default(), heard + HEARTBEAT, vec![]);
        let waits = lifetime == Lifetime::Unlimited && happens(2);
        self.job = Some(ClientJob { name, plan, lease, places, heard, due, waits, shards, rows });
        Ok(())
    }

    /// Goes on with a job; it is kept unless it is over.
    fn follow(&mut self, mut job: ClientJob) -> Result<()> {
        let is_over = self.advance(&mut job);
        if !matches!(is_over, Ok(true)) {
            self.job = Some(job);
        }
        is_over.map(|_| ())
    }

    /// Whether the job is over.
    fn advance(&mut self, job: &mut ClientJob) -> Result<bool> {
        if job.shards.iter().all(|shard| shard.2) {
            self.tables.remove_job(&job.name)?;
            self.check(job);
            return Ok(true);
        }
        let now = self.environment.now();
        if let Some(lease) = job.lease.as_ref().filter(|_| job.due <= now) {
            job.due = now + HEARTBEAT;
            if lease.renew(CLIENT_LEASE).is_ok_and(|is_held| is_held) {
                job.heard = now;
            }
        }
        match follow(&self.tables, &job.name, &job.places)? {
            Followed::There => {}
            Followed::Over(_)
                if job.lease.is_some() && job.heard + CLIENT_LEASE <= self.environment.now() =>
            {
                self.environment.note(format!("{} was given up: its client was silent", job.name));
                return Ok(true);
            }
            Followed::Over(error) => self.environment.violate(format!("{} is over: {error}", job.name)),
            Followed::Released => self.environment.violate(format!("{} was released", job.name)),
        }
        if !job.waits || record(&self.tables, &job.name)?.state == JobState::Ended {
            job.waits = false;
            job.fetch(&self.environment);
        }
        Ok(false)
    }

    /// Checks the rows of a job.
    fn check(&mut self, job: &mut ClientJob) {
        let sources = job.plan.topology.channels_of(0).len() as u64;
        job.rows.sort_unstable();
        if !job.rows.iter().copied().eq(0..sources * ROWS) {
            self.environment.violate(format!("{} gave the rows {:?}", job.name, job.rows));
        }
        self.environment.note(format!("{} is complete", job.name));
        self.completed += 1;
    }
}

impl ClientJob {
    /// Reads what there is of the result.
    fn fetch(&mut self, environment: &Environment) {
        for (channel, next, has_ended) in &mut self.shards {
            let name = QueueName::of_result(&self.name, &self.plan.topology, *channel);
            while !*has_ended {
                let Some((_, Some(address))) = self.places.borrow().of(*channel) else { break };
                let Some(message) = environment.fetch(&address, &name, *next) else { break };
                *next += 1;
                *has_ended = message.is_none();
                self.rows.extend(message.and_then(row));
            }
        }
    }
}
