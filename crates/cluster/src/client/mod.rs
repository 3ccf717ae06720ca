//! A client: it gives jobs to a cluster, and fetches their results.
//!
//! `submit` writes down new jobs, `virtual_clusters` groups workers, `datasets` keeps results under names.

mod datasets;
pub mod submit;
mod virtual_clusters;

use crate::connection::Connection;
use crate::error::of_store;
use crate::fetch::fetch;
use crate::job::ClusterJob;
use crate::live::{self, LiveJob, LiveJobOptions, LiveJobRecord};
use crate::live_workers::{LiveWorker, live_workers};
use crate::records::{JobRecord, Lifetime, Schedule};
use crate::references::with_datasets;
use datafusion::common::Result;
use std::sync::Arc;
use submit::submit;
use whimbrel_control::ControlStore;
use whimbrel_plan::{References, Stream};
use whimbrel_sharded::Options;
use whimbrel_sharded::runtime::{Execution, Progress, RemotePart, RemoteRuntime, Sink};

/// A cluster, as a client sees it: all of it, or a virtual cluster.
#[derive(Clone)]
pub struct Cluster {
    connection: Arc<Connection>,
    references: Arc<dyn References>,
    /// What plans refer to on any host, without datasets of the cluster: they can go away.
    lasting_references: Arc<dyn References>,
    /// The virtual cluster.
    name: Option<String>,
    schedule: Schedule,
}

impl Cluster {
    /// The cluster that meets in a store.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there are no threads.
    pub fn connect(store: Arc<dyn ControlStore>, references: Arc<dyn References>) -> Result<Cluster> {
        let connection = Arc::new(Connection::open(store)?);
        let lasting_references = Arc::clone(&references);
        let references = with_datasets(&connection, &references);
        Ok(Cluster { connection, references, lasting_references, name: None, schedule: Schedule::default() })
    }

    /// The same cluster, with another schedule for what is submitted.
    #[must_use]
    pub fn with_schedule(&self, schedule: Schedule) -> Cluster {
        Cluster { schedule, ..self.clone() }
    }

    /// The name of the virtual cluster, if it is one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The workers that are alive: of the virtual cluster, or all.
    ///
    /// # Errors
    /// Those of the store.
    pub fn workers(&self) -> Result<Vec<LiveWorker>> {
        let live = live_workers(&self.connection.tables)?.into_iter();
        Ok(live.filter(|worker| self.name.is_none() || worker.membership.cluster == self.name).collect())
    }

    /// The jobs that are there, with their names.
    ///
    /// # Errors
    /// Those of the store.
    pub fn jobs(&self) -> Result<Vec<(String, JobRecord)>> {
        let rows = self.connection.tables.jobs().rows().map_err(of_store)?.into_iter();
        let rows = rows.map(|(name, row)| (name, row.value));
        Ok(rows.filter(|(_, job)| self.name.is_none() || job.cluster == self.name).collect())
    }

    /// A job that is there.
    ///
    /// # Errors
    /// `Execution` if there is none of this name.
    pub fn job(&self, name: &str) -> Result<ClusterJob> {
        ClusterJob::open(&self.connection, &self.references, name)
    }

    /// Submits a query that runs also when its client is gone. Its result can be fetched, by any client, as
    /// long as the job is there.
    ///
    /// # Errors
    /// `Plan` if the query cannot run on a cluster; `Execution` if there are no workers.
    pub fn submit(&self, stream: &Stream, options: &Options, lifetime: Lifetime) -> Result<ClusterJob> {
        let (connection, references, name) = (&self.connection, &self.references, self.name.as_deref());
        Ok(submit(connection, references, name, self.schedule, stream, options, lifetime)?.job)
    }

    /// Submits a query that runs for ever, also when its client is gone: one worker hosts it, and another one
    /// goes on with it if that is lost. It waits for a worker if there is none.
    ///
    /// # Errors
    /// `Plan` if a source cannot be read again or only by this process, or there is no such sink.
    pub fn run_forever(&self, stream: &Stream, options: &Options, job: &LiveJobOptions) -> Result<LiveJob> {
        live::submit(&self.connection, &self.lasting_references, self.name(), stream, options, job)
    }

    /// The live jobs that are there, with their names.
    ///
    /// # Errors
    /// Those of the store.
    pub fn live_jobs(&self) -> Result<Vec<(String, LiveJobRecord)>> {
        let jobs = LiveJob::all(&self.connection.tables)?.into_iter();
        Ok(jobs.filter(|(_, job)| self.name.is_none() || job.cluster == self.name).collect())
    }

    /// A live job that is there.
    ///
    /// # Errors
    /// `Execution` if there is none of this name.
    pub fn live_job(&self, name: &str) -> Result<LiveJob> {
        LiveJob::open(&self.connection, &self.lasting_references, name)
    }
}

impl RemoteRuntime for Cluster {
    fn cores(&self) -> usize {
        let live = self.workers().unwrap_or_default();
        let members = live.iter().filter(|worker| worker.membership.cluster == self.name);
        members.map(|worker| worker.record.threads as usize).sum::<usize>().max(1)
    }

    fn start(
        &self,
        stream: &Stream,
        options: &Options,
        sinks: Vec<Sink>,
        progress: &Progress,
    ) -> Result<Box<dyn Execution>> {
        let (connection, references, name) = (&self.connection, &self.references, self.name.as_deref());
        let part = RemotePart::of(stream)?;
        let sinks = part.sinks(sinks)?;
        let submitted =
            submit(connection, references, name, self.schedule, part.stream(), options, Lifetime::Client)?;
        fetch(connection, submitted.job.plan(), submitted.lease, sinks, progress)
    }
}
