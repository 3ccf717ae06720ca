//! What a worker knows and does: a state machine over the control store, without threads and clocks, so that
//! a simulation can drive it step by step.

use super::job::JobRun;
use super::launch::{Finished, Launcher};
use super::recovery::recover;
use super::registration::{Registration, removal};
use crate::error::of_store;
use crate::live_workers::{LiveWorker, addresses, live_workers, pools};
use crate::pull::Unreachable;
use crate::records::{
    JobRecord, JobState, LOOKOUT_LEASE, Lifetime, Tables, job_lease, lookout_lease, worker_lease,
};
use datafusion::common::Result;
use std::collections::BTreeMap;
use std::sync::Arc;
use whimbrel_control::{Condition, Lease, Transaction, Versioned};
use whimbrel_plan::References;

/// A worker.
pub struct State {
    tables: Tables,
    references: Arc<dyn References>,
    registration: Arc<Registration>,
    launcher: Box<dyn Launcher>,
    /// Where workers can be reached.
    addresses: BTreeMap<String, String>,
    jobs: BTreeMap<String, JobRun>,
    /// What has not been written down yet.
    reports: Vec<Finished>,
    /// Held while this worker is the one that looks around.
    lookout: Option<Lease>,
}

impl State {
    /// A worker that has registered.
    pub fn new(
        tables: Tables,
        references: Arc<dyn References>,
        registration: Arc<Registration>,
        launcher: Box<dyn Launcher>,
    ) -> State {
        let (addresses, jobs, reports, lookout) = (BTreeMap::new(), BTreeMap::new(), vec![], None);
        State { tables, references, registration, launcher, addresses, jobs, reports, lookout }
    }

    /// Learns that channels have ended here, and writes that down.
    ///
    /// # Errors
    /// Those of the store; what was not written is the next time.
    pub fn add_reports(&mut self, finished: impl IntoIterator<Item = Finished>) -> Result<()> {
        self.reports.extend(finished);
        self.report()
    }

    /// Lets a job do without a worker that cannot be reached from here, unless it does without this one.
    /// So if a link is cut, one side goes on.
    ///
    /// # Errors
    /// Those of the store.
    pub fn exclude(&self, unreachable: &Unreachable) -> Result<()> {
        let Some(job) = self.jobs.get(&unreachable.job) else { return Ok(()) };
        let (own, excluded) = (self.registration.name(), self.tables.excluded(&unreachable.job));
        let exclude = Transaction::new()
            .when(self.tables.jobs().unchanged(&unreachable.job, Some(job.record.version)))
            .when(excluded.unchanged(&own, None))
            .then(excluded.put(&unreachable.worker, &own).map_err(of_store)?);
        // A conflict means that this side does not go on, or the job is over.
        let _ = self.tables.store.commit(&exclude).map_err(of_store)?;
        Ok(())
    }

    /// Does what there is to do. `looks_around` is for now and then: who else is lost? One worker does that
    /// for all, so that the store has the same to do for many workers as for few.
    ///
    /// # Errors
    /// Those of the store; what was not done is done the next time.
    pub fn work(&mut self, looks_around: bool) -> Result<()> {
        if self.registration.is_lost() {
            // What it had runs elsewhere.
            self.jobs.keys().for_each(|job| self.launcher.remove_job(job));
            self.jobs.clear();
            self.reports.clear();
            self.registration.register_again(&self.tables)?;
        }
        if looks_around && self.is_lookout()? {
            self.look_around()?;
        }
        self.report()?;
        self.look()?;
        self.conclude()?;
        match looks_around {
            true => self.report_runs(),
            false => Ok(()),
        }
    }

    /// Stops everything, and leaves the cluster. If it cannot leave, its lease lapses.
    ///
    /// # Errors
    /// Those of the store.
    pub fn leave(mut self) -> Result<()> {
        self.jobs.clear();
        self.registration.leave(&self.tables)
    }

    /// Whether this worker is the lookout, or is from now on.
    fn is_lookout(&mut self) -> Result<bool> {
        if let Some(lease) = &self.lookout
            && lease.renew(LOOKOUT_LEASE).map_err(of_store)?
        {
            return Ok(true);
        }
        let own = self.registration.name();
        let lease = Lease::acquire(&self.tables.store, lookout_lease(), &own, LOOKOUT_LEASE);
        self.lookout = lease.map_err(of_store)?;
        Ok(self.lookout.is_some())
    }

    /// Finds out who is lost.
    fn look_around(&mut self) -> Result<()> {
        let live = live_workers(&self.tables)?;
        self.fill_clusters(&live)?;
        let (pools, own) = (pools(&live), self.registration.name());
        self.jobs.values().try_for_each(|job| recover(&self.tables, &own, job, &pools))?;
        let known = self.tables.workers().rows().map_err(of_store)?;
        for (worker, _) in known.iter().filter(|(worker, _)| !pools.alive.contains(worker)) {
            let removal = removal(&self.tables, worker).when(Condition::Free { lease: worker_lease(worker) });
            // A conflict means that it was not lost.
            let _ = self.tables.store.commit(&removal).map_err(of_store)?;
        }
        Ok(())
    }

    /// Gives virtual clusters free workers in the place of those that were lost.
    fn fill_clusters(&self, live: &[LiveWorker]) -> Result<()> {
        let tables = &self.tables;
        for (name, row) in tables.clusters().rows().map_err(of_store)? {
            let is_member = |worker: &&LiveWorker| worker.membership.cluster.as_ref() == Some(&name);
            let missing = (row.value.workers as usize).saturating_sub(live.iter().filter(is_member).count());
            for worker in live.iter().filter(|worker| worker.is_free()).take(missing) {
                let unchanged = tables.clusters().unchanged(&name, Some(row.version));
                let assigned = worker.assign(tables, Transaction::new().when(unchanged), Some(&name))?;
                // A conflict means that another worker was faster.
                let _ = tables.store.commit(&assigned).map_err(of_store)?;
            }
        }
        Ok(())
    }

    /// Looks which jobs there are, and begins and stops channels accordingly.
    fn look(&mut self) -> Result<()> {
        let jobs = self.tables.jobs().rows().map_err(of_store)?;
        let mut there: BTreeMap<String, Versioned<JobRecord>> = jobs.into_iter().collect();
        self.remove_expired(&there)?;
        there.retain(|_, job| matches!(job.value.state, JobState::Running | JobState::Ended));
        let over: Vec<String> = self.jobs.keys().filter(|job| !there.contains_key(*job)).cloned().collect();
        for job in over {
            self.jobs.remove(&job);
            self.launcher.remove_job(&job);
        }
        let own = self.registration.name();
        for (name, record) in there {
            if !self.jobs.contains_key(&name) {
                let Some(job) = JobRun::open(&self.tables, &name, record.clone(), &self.references)? else {
                    continue;
                };
                self.jobs.insert(name.clone(), job);
            }
            let Some(job) = self.jobs.get_mut(&name) else { continue };
            job.record = record;
            job.read(&self.tables)?;
            if !job.workers().all(|worker| self.addresses.contains_key(worker)) {
                self.addresses = addresses(&live_workers(&self.tables)?);
                // Those that are lost have none, and never come back under their names.
                job.workers().for_each(|worker| _ = self.addresses.entry(worker.clone()).or_default());
            }
            job.update(&self.addresses, &own, self.launcher.as_ref())?;
        }
        Ok(())
    }

    /// Removes failed jobs whose time is over; those that run are looked after by recovery.
    fn remove_expired(&self, jobs: &BTreeMap<String, Versioned<JobRecord>>) -> Result<()> {
        for (name, job) in jobs {
            if matches!(job.value.state, JobState::Failed(_)) && job.value.is_expired(false) {
                let lease = Lease::holding(self.tables.store.as_ref(), &job_lease(name)).map_err(of_store)?;
                if lease.is_none() {
                    self.tables.remove_job(name)?;
                }
            }
        }
        Ok(())
    }

    /// Writes down which channels have ended, and which jobs have failed.
    fn report(&mut self) -> Result<()> {
        let own = self.registration.name();
        let mut transactions = Vec::new();
        for finished in &self.reports {
            if let Some(job) = self.jobs.get(&finished.job) {
                transactions.extend(job.report(&self.tables, &own, finished)?);
            }
        }
        // A conflict means that the channel was given to another worker, or the job is over.
        self.commit_each(&transactions)?;
        self.reports.clear();
        Ok(())
    }

    /// Writes down which jobs have their results. Their clients may have gone, so somebody has to.
    fn conclude(&mut self) -> Result<()> {
        let mut transactions = Vec::new();
        for job in self.jobs.values().filter(|job| job.record.value.lifetime != Lifetime::Client) {
            transactions.extend(job.conclude(&self.tables)?);
        }
        // A conflict means that another worker was faster.
        self.commit_each(&transactions)
    }

    /// Writes down what the channels that run have done.
    fn report_runs(&mut self) -> Result<()> {
        let own = self.registration.name();
        let mut transactions = Vec::new();
        for job in self.jobs.values_mut() {
            transactions.extend(job.report_runs(&self.tables, &own)?);
        }
        self.commit_each(&transactions)
    }

    /// Commits each of these transactions, or finds that it has been overtaken.
    fn commit_each(&self, transactions: &[Transaction]) -> Result<()> {
        let _ = self.tables.store.commit_all(transactions).map_err(of_store)?;
        Ok(())
    }
}
