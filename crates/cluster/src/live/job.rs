//! A live job as its client sees it. It goes on when its client is gone.

use super::record::{
    LiveJobOptions, LiveJobRecord, LiveProgress, LiveState, find, insertion, jobs, progress, replace,
};
use crate::activity::JobActivity;
use crate::connection::Connection;
use crate::error::of_store;
use crate::records::Tables;
use datafusion::common::{DataFusionError, Result, exec_err};
use std::path::absolute;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use whimbrel_control::{Outcome, Transaction, TransactionId};
use whimbrel_jobs::sink;
use whimbrel_jobs::store::Access;
use whimbrel_plan::source::local_path;
use whimbrel_plan::{References, Stream};
use whimbrel_sharded::action::{EpochPlan, check_in_epochs};
use whimbrel_sharded::{JobSpec, Options};

/// How often a job is asked whether it has ended.
const POLL: Duration = Duration::from_millis(50);

/// A live job of a cluster.
#[derive(Clone)]
pub struct LiveJob {
    connection: Arc<Connection>,
    references: Arc<dyn References>,
    name: String,
}

/// Writes down a live job, for a worker to take.
///
/// # Errors
/// `Plan` if a source cannot be read again or by another process, or there is no such sink; those of the
/// store.
pub fn submit(
    connection: &Arc<Connection>,
    references: &Arc<dyn References>,
    cluster: Option<&str>,
    stream: &Stream,
    options: &Options,
    live: &LiveJobOptions,
) -> Result<LiveJob> {
    check_in_epochs(stream)?;
    // The hosts open it; here, only the kind of place is checked.
    sink::open(&live.to, live.format, Access::Shared)?;
    let plan = EpochPlan::of(stream, &Options { remote: None, ..options.clone() })?;
    let spec = plan.spec(references)?.to_bytes()?;
    let widest = plan.topology().channels().iter().map(|id| id.channel as u32 + 1).max();
    let (to, checkpoint) = (everywhere(&live.to)?, everywhere(&live.checkpoint)?);
    let live = LiveJobOptions { to, checkpoint, ..live.clone() };
    let name = format!("{:016x}", TransactionId::random().0 as u64);
    let tables = &connection.tables;
    let insertion = insertion(tables, &name, live, cluster.map(str::to_string), (spec, widest.unwrap_or(1)))?;
    match tables.store.commit(&insertion).map_err(of_store)? {
        Outcome::Committed { .. } => Ok(LiveJob::of(connection, references, name)),
        Outcome::Conflict { .. } => exec_err!("{} refused a job", tables.store.describe()),
    }
}

/// The place as a process in another folder names it.
fn everywhere(place: &str) -> Result<String> {
    match place.contains("://") {
        true => Ok(place.to_string()),
        false => {
            let path =
                absolute(local_path(place)?).map_err(|e| DataFusionError::Plan(format!("`{place}`: {e}")))?;
            Ok(path.to_string_lossy().into_owned())
        }
    }
}

impl LiveJob {
    /// The job of a name.
    ///
    /// # Errors
    /// `Execution` if there is none.
    pub(crate) fn open(
        connection: &Arc<Connection>,
        references: &Arc<dyn References>,
        name: &str,
    ) -> Result<LiveJob> {
        find(&connection.tables, name)?;
        Ok(LiveJob::of(connection, references, name.to_string()))
    }

    fn of(connection: &Arc<Connection>, references: &Arc<dyn References>, name: String) -> LiveJob {
        LiveJob { connection: Arc::clone(connection), references: Arc::clone(references), name }
    }

    /// The jobs that are there.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn all(tables: &Tables) -> Result<Vec<(String, LiveJobRecord)>> {
        let rows = jobs(tables).rows().map_err(of_store)?;
        Ok(rows.into_iter().map(|(name, row)| (name, row.value)).collect())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is known of it: its state, and who hosts it.
    ///
    /// # Errors
    /// `Execution` if it is gone.
    pub fn record(&self) -> Result<LiveJobRecord> {
        Ok(find(self.tables(), &self.name)?.value)
    }

    /// How far its last host was when it said so; none before one has begun.
    ///
    /// # Errors
    /// Those of the store.
    pub fn progress(&self) -> Result<Option<LiveProgress>> {
        Ok(progress(self.tables()).get(&self.name).map_err(of_store)?.map(|row| row.value))
    }

    /// The query.
    ///
    /// # Errors
    /// `Execution` if the job is gone.
    pub fn stream(&self) -> Result<Stream> {
        let spec = self.tables().specs().get(&self.name).map_err(of_store)?;
        let Some(spec) = spec else { return exec_err!("the cluster has no live job {}", self.name) };
        JobSpec::from_bytes(&spec.value)?.stream(&self.references)
    }

    /// What it does on its workers.
    ///
    /// # Errors
    /// Those of the store.
    pub fn activity(&self) -> Result<JobActivity> {
        self.connection.activity(&self.name)
    }

    /// Asks for it to be stopped; its state stays. It does nothing to a job that is over.
    ///
    /// # Errors
    /// `Execution` if it is gone.
    pub fn stop(&self) -> Result<()> {
        loop {
            let row = find(self.tables(), &self.name)?;
            if row.value.state != LiveState::Running {
                return Ok(());
            }
            let stopping = LiveJobRecord { state: LiveState::Stopping, ..row.value.clone() };
            if replace(self.tables(), &self.name, &row, stopping)?.is_some() {
                return Ok(());
            }
        }
    }

    /// Waits for the end, or until an instant; whether the job has ended or was stopped.
    ///
    /// # Errors
    /// That of the job if it has failed; `Execution` if it is gone.
    pub fn wait(&self, until: Option<Instant>) -> Result<bool> {
        loop {
            match self.record()?.state {
                LiveState::Failed(failure) => return Err(failure.error()),
                LiveState::Stopped | LiveState::Ended => return Ok(true),
                LiveState::Running | LiveState::Stopping => {}
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
            sleep(POLL);
        }
    }

    /// Removes a job that is over from the store; its results and its state stay.
    ///
    /// # Errors
    /// `Execution` if it runs, or is gone.
    pub fn remove(&self) -> Result<()> {
        let (tables, row) = (self.tables(), find(self.tables(), &self.name)?);
        if row.value.state.is_active() {
            return exec_err!("the live job {} runs; stop it first", self.name);
        }
        let removal = Transaction::new()
            .then(jobs(tables).delete(&self.name))
            .then(progress(tables).delete(&self.name))
            .then(tables.specs().delete(&self.name));
        tables.store.commit(&removal).map(|_| ()).map_err(of_store)
    }

    fn tables(&self) -> &Tables {
        &self.connection.tables
    }
}
