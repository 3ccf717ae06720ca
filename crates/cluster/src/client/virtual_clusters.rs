//! Virtual clusters: groups of workers with names, which operate as one (quill.txt §5.2, Table 3).
//!
//! Workers that belong to none are free; a virtual cluster takes some of them, and gives them back. What a
//! worker has begun it goes on with, whichever group it is in.

use super::Cluster;
use crate::error::of_store;
use crate::live::LiveJobRecord;
use crate::live_workers::{LiveWorker, live_workers};
use crate::records::{ClusterRecord, JobState, Membership};
use datafusion::common::{Result, exec_err, plan_err};
use whimbrel_control::Transaction;

/// How often something is tried again that others changed meanwhile.
const ATTEMPTS: usize = 100;

impl Cluster {
    /// Creates a virtual cluster of so many free workers.
    ///
    /// # Errors
    /// `Plan` if the name is empty, or there is one of that name; `Execution` if not as many workers are
    /// free.
    pub fn create_cluster(&self, name: &str, workers: usize) -> Result<Cluster> {
        if name.is_empty() || workers == 0 {
            return plan_err!("a virtual cluster has a name and at least one worker");
        }
        let clusters = self.connection.tables.clusters();
        for _ in 0..ATTEMPTS {
            if clusters.get(name).map_err(of_store)?.is_some() {
                return plan_err!("there is a virtual cluster `{name}` already; use it, or tear it down");
            }
            let record = ClusterRecord { workers: u32::try_from(workers).unwrap_or(u32::MAX) };
            let mut transaction = Transaction::new()
                .when(clusters.unchanged(name, None))
                .then(clusters.put(name, &record).map_err(of_store)?);
            for worker in self.free_workers(workers)? {
                transaction = self.assign(transaction, &worker, Some(name))?;
            }
            if self.connection.tables.store.commit(&transaction).map_err(of_store)?.is_committed() {
                return Ok(Cluster { name: Some(name.to_string()), ..self.clone() });
            }
        }
        exec_err!("others take workers all the time; try again later")
    }

    /// A virtual cluster that is there.
    ///
    /// # Errors
    /// `Plan` if there is none of this name.
    pub fn cluster(&self, name: &str) -> Result<Cluster> {
        match self.connection.tables.clusters().get(name).map_err(of_store)? {
            Some(_) => Ok(Cluster { name: Some(name.to_string()), ..self.clone() }),
            None => plan_err!("there is no virtual cluster `{name}`; create it with create_cluster"),
        }
    }

    /// The names of the virtual clusters.
    ///
    /// # Errors
    /// Those of the store.
    pub fn clusters(&self) -> Result<Vec<String>> {
        let rows = self.connection.tables.clusters().rows().map_err(of_store)?;
        Ok(rows.into_iter().map(|(name, _)| name).collect())
    }

    /// Ends the virtual cluster; its workers are free then, and keep the results that they have.
    ///
    /// # Errors
    /// `Plan` if it is the whole cluster; `Execution` if a job runs on it.
    pub fn tear_down(&self) -> Result<()> {
        let Some(name) = &self.name else {
            return plan_err!("only virtual clusters are torn down; stop the workers instead");
        };
        let running = self.jobs()?.into_iter().find(|(_, job)| job.state == JobState::Running);
        if let Some((job, _)) = running {
            return exec_err!("the virtual cluster `{name}` runs the job {job}; wait for it, or cancel it");
        }
        let is_here =
            |record: &LiveJobRecord| record.state.is_active() && record.cluster.as_ref() == Some(name);
        if let Some((job, _)) = self.live_jobs()?.into_iter().find(|(_, record)| is_here(record)) {
            return exec_err!("the virtual cluster `{name}` runs the live job {job}; stop it first");
        }
        let mut transaction = Transaction::new().then(self.connection.tables.clusters().delete(name));
        for worker in self.workers()? {
            transaction = self.assign(transaction, &worker, None)?;
        }
        match self.connection.tables.store.commit(&transaction).map_err(of_store)?.is_committed() {
            true => Ok(()),
            // A worker was lost or drained meanwhile.
            false => self.tear_down(),
        }
    }

    /// Gives the virtual cluster so many more free workers. New channels may run there at once.
    ///
    /// # Errors
    /// `Plan` if it is the whole cluster; `Execution` if not as many workers are free.
    pub fn add_workers(&self, workers: usize) -> Result<()> {
        let Some(name) = &self.name else {
            return plan_err!("workers join a virtual cluster; start some with `whimbrel worker`");
        };
        let clusters = self.connection.tables.clusters();
        for _ in 0..ATTEMPTS {
            let Some(row) = clusters.get(name).map_err(of_store)? else {
                return plan_err!("there is no virtual cluster `{name}`");
            };
            let more = u32::try_from(workers).unwrap_or(u32::MAX);
            let record = ClusterRecord { workers: row.value.workers.saturating_add(more) };
            let mut transaction = Transaction::new()
                .when(clusters.unchanged(name, Some(row.version)))
                .then(clusters.put(name, &record).map_err(of_store)?);
            for worker in self.free_workers(workers)? {
                transaction = self.assign(transaction, &worker, Some(name))?;
            }
            if self.connection.tables.store.commit(&transaction).map_err(of_store)?.is_committed() {
                return Ok(());
            }
        }
        exec_err!("others take workers all the time; try again later")
    }

    /// Gives a worker no more channels, so that it can be stopped once it has nothing to do.
    ///
    /// # Errors
    /// `Plan` if there is no such worker.
    pub fn drain(&self, worker: &str) -> Result<()> {
        let live = live_workers(&self.connection.tables)?;
        let Some(found) = live.iter().find(|live| live.name == worker || live.record.address == worker)
        else {
            return plan_err!("no worker has the name or the address {worker}");
        };
        let drained = |membership: Option<Membership>| Membership {
            is_draining: true,
            ..membership.unwrap_or_default()
        };
        self.connection.tables.members().update(&found.name, drained).map(|_| ()).map_err(of_store)
    }

    /// How many channels a worker has that have not ended, or that others may still read, and in how many
    /// live jobs it takes part.
    ///
    /// # Errors
    /// Those of the store.
    pub fn channels_of(&self, worker: &str) -> Result<usize> {
        let mut channels = 0;
        for (job, _) in self.jobs()? {
            let rows = self.connection.tables.channels(&job).rows().map_err(of_store)?;
            channels += rows.iter().filter(|(_, row)| row.value.worker == worker).count();
        }
        let live = self.live_jobs()?.into_iter().map(|(_, record)| record);
        let live = live.filter(|record| record.state.is_active() && record.is_at(worker));
        Ok(channels + live.count())
    }

    /// So many workers that are free.
    fn free_workers(&self, workers: usize) -> Result<Vec<LiveWorker>> {
        let live = live_workers(&self.connection.tables)?.into_iter();
        let mut free: Vec<LiveWorker> = live.filter(LiveWorker::is_free).collect();
        if free.len() < workers {
            return exec_err!(
                "{workers} free workers are needed and {} are there; start more with `whimbrel worker`",
                free.len()
            );
        }
        free.truncate(workers);
        Ok(free)
    }

    /// Adds to a transaction that a worker, as it was read, belongs to a virtual cluster.
    fn assign(&self, transaction: Transaction, worker: &LiveWorker, to: Option<&str>) -> Result<Transaction> {
        worker.assign(&self.connection.tables, transaction, to)
    }
}
