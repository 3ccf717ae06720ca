//! A live job that runs on this worker.
//!
//! Invariant: its folders are opened so that earlier hosts, which may be stopped and hold locks, are not
//! waited for: the numbers of the runs keep hosts apart (whimbrel-jobs).

use super::record::{LiveJobRecord, LiveProgress, progress};
use super::team::Team;
use super::team_runtime::TeamRuntime;
use crate::error::of_store;
use crate::records::Tables;
use datafusion::common::{Result, exec_err};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use whimbrel_control::{Transaction, Versioned};
use whimbrel_jobs::store::Access;
use whimbrel_jobs::{DurableJob, Pace, sink, start_with, store};
use whimbrel_plan::References;
use whimbrel_sharded::JobSpec;
use whimbrel_sharded::action::EpochRuntime;

/// A job that runs here. Dropping it stops the job.
pub struct Hosting {
    /// Which attempt of the job it is.
    pub attempt: u32,
    /// The job.
    pub job: DurableJob,
    /// Whether it was stopped to be begun again.
    pub begins_again: bool,
    /// What was written down of it last.
    written: Option<LiveProgress>,
}

impl Hosting {
    /// Begins a job, or goes on with it from its newest checkpoint; its channels run here, or on the
    /// members of its team.
    ///
    /// # Errors
    /// As [`start_with`]; `Execution` if the specification is gone.
    pub fn start(
        tables: &Tables,
        references: &Arc<dyn References>,
        name: &str,
        record: &LiveJobRecord,
        team: Option<Team>,
    ) -> Result<Hosting> {
        let Some(spec) = tables.specs().get(name).map_err(of_store)? else {
            return exec_err!("the cluster has no plan of the live job {name}");
        };
        let spec = JobSpec::from_bytes(&spec.value)?;
        let options = &record.options;
        let store = store::open(&options.checkpoint, Access::Shared)?;
        let sink = sink::open(&options.to, options.format, Access::Shared)?;
        let pace = Pace { every: options.every, stop_when_idle: options.stop_when_idle };
        let stream = spec.stream(references)?;
        let runtime = team.map(|team| TeamRuntime { team, references: Arc::clone(references) });
        let runtime = runtime.as_ref().map(|runtime| runtime as &dyn EpochRuntime);
        let job = start_with(&stream, (&spec.options(), runtime), pace, references, store, sink)?;
        Ok(Hosting { attempt: record.attempt, job, begins_again: false, written: None })
    }

    /// Stops the job, and waits for that, but not for long: how it ended says whoever goes on with it.
    pub fn stop(&self, patience: Duration) {
        self.job.stop();
        let _ = self.job.wait_timeout(patience);
    }

    /// Writes down how far it is, if its row is as it was read.
    ///
    /// # Errors
    /// Those of the store.
    pub fn report(&mut self, tables: &Tables, name: &str, row: &Versioned<LiveJobRecord>) -> Result<()> {
        let since = self.job.checkpointed_at().and_then(|when| when.duration_since(UNIX_EPOCH).ok());
        let found = LiveProgress {
            attempt: self.attempt,
            restored_from: self.job.restored_from(),
            epoch: self.job.epoch(),
            committed: self.job.committed(),
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
