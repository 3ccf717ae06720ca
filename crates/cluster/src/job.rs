//! Jobs of a cluster, for whoever knows their names.

use crate::activity::JobActivity;
use crate::connection::Connection;
use crate::error::of_store;
use crate::fetch::fetch;
use crate::follow::{channels, record, released, runs};
use crate::plan::Plan;
use crate::records::{JobState, RunRecord};
use crate::statistics::{JobStatistics, StageProgress};
use datafusion::common::{DataFusionError, Result, exec_err};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use whimbrel_plan::{References, Stream};
use whimbrel_sharded::program::ChannelId;
use whimbrel_sharded::runtime::{Execution, Progress, RemoteRuntime, ResultSinks, Sink};
use whimbrel_sharded::{JobSpec, Options, RuntimeKind};

/// How often a job is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);

/// What has become of a job.
#[derive(Debug)]
pub enum JobStatus {
    /// It runs.
    Running,
    /// Its result is there.
    Ended,
    /// It has failed.
    Failed(DataFusionError),
}

/// One run of a channel, and which channel of which stage that is.
#[derive(Debug, Clone)]
pub struct RunTime {
    /// The channel.
    pub id: ChannelId,
    /// The run.
    pub record: RunRecord,
}

/// A job that is there. As a runtime, it gives its result, whatever is to be run.
#[derive(Clone)]
pub struct ClusterJob {
    connection: Arc<Connection>,
    references: Arc<dyn References>,
    plan: Arc<Plan>,
}

impl ClusterJob {
    /// The job of a plan.
    pub(crate) fn of(
        connection: &Arc<Connection>,
        references: &Arc<dyn References>,
        plan: Arc<Plan>,
    ) -> ClusterJob {
        ClusterJob { connection: Arc::clone(connection), references: Arc::clone(references), plan }
    }

    /// The job of a name.
    ///
    /// # Errors
    /// `Execution` if there is none.
    pub(crate) fn open(
        connection: &Arc<Connection>,
        references: &Arc<dyn References>,
        name: &str,
    ) -> Result<ClusterJob> {
        let record = record(&connection.tables, name)?;
        let spec = connection.tables.specs().get(name).map_err(of_store)?;
        let Some(spec) = spec else { return exec_err!("the cluster has no job {name}") };
        let plan = Plan::read(name, &record, &spec.value, references)?;
        Ok(ClusterJob::of(connection, references, Arc::new(plan)))
    }

    /// The name of the job.
    pub fn name(&self) -> &str {
        &self.plan.job
    }

    /// What reads its result.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// What its channels share.
    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The query. To run it on the job gives the result of the job.
    ///
    /// # Errors
    /// `Execution` if the job is gone.
    pub fn stream(&self) -> Result<Stream> {
        let spec = self.connection.tables.specs().get(self.name()).map_err(of_store)?;
        let Some(spec) = spec else { return exec_err!("the cluster has no job {}", self.name()) };
        JobSpec::from_bytes(&spec.value)?.stream(&self.references)
    }

    /// What has become of it.
    ///
    /// # Errors
    /// `Execution` if it is gone.
    pub fn status(&self) -> Result<JobStatus> {
        Ok(match record(&self.connection.tables, self.name())?.state {
            JobState::Running => JobStatus::Running,
            JobState::Ended => JobStatus::Ended,
            JobState::Failed(failure) => JobStatus::Failed(failure.error()),
            JobState::Released => JobStatus::Failed(released(self.name())),
        })
    }

    /// Waits for the end, or until an instant; whether the job has ended.
    ///
    /// # Errors
    /// That of the job if it has failed; `Execution` if it is gone.
    pub fn wait(&self, until: Option<Instant>) -> Result<bool> {
        loop {
            match self.status()? {
                JobStatus::Running if until.is_some_and(|until| Instant::now() >= until) => return Ok(false),
                JobStatus::Running => sleep(POLL),
                JobStatus::Ended => return Ok(true),
                JobStatus::Failed(error) => return Err(error),
            }
        }
    }

    /// How far each stage is.
    ///
    /// # Errors
    /// Those of the store.
    pub fn progress(&self) -> Result<Vec<StageProgress>> {
        let tables = &self.connection.tables;
        let (channels, runs) = (channels(tables, self.name())?, runs(tables, self.name())?);
        Ok(StageProgress::of(&self.plan.topology, &channels, &runs))
    }

    /// What the channels have done, and what had to be done again.
    ///
    /// # Errors
    /// Those of the store.
    pub fn statistics(&self) -> Result<JobStatistics> {
        let (tables, name) = (&self.connection.tables, self.name());
        let (channels, runs) = (channels(tables, name)?, runs(tables, name)?);
        let spec = tables.specs().get(name).map_err(of_store)?.map_or(0, |spec| spec.value.len());
        let rows: usize = channels.iter().map(|channel| channel.worker.len() + 2 * size_of::<u32>()).sum();
        let choices = tables.choices(name).length().map_err(of_store)?;
        let bytes = (spec + rows) as u64 + choices * 3 * size_of::<u64>() as u64;
        let failures = tables.losses(name).rows().map_err(of_store)?.len() as u64;
        Ok(JobStatistics::of(&channels, &runs, failures, bytes))
    }

    /// What its channels do that run.
    ///
    /// # Errors
    /// Those of the store.
    pub fn activity(&self) -> Result<JobActivity> {
        self.connection.activity(self.name())
    }

    /// Where and when its channels ran.
    ///
    /// # Errors
    /// Those of the store.
    pub fn timeline(&self) -> Result<Vec<RunTime>> {
        let runs = runs(&self.connection.tables, self.name())?.into_iter();
        let id = |record: &RunRecord| self.plan.topology.channels().get(record.channel as usize).copied();
        Ok(runs.filter_map(|record| Some(RunTime { id: id(&record)?, record })).collect())
    }

    /// Stops the job if it runs, and removes it with its result.
    ///
    /// # Errors
    /// Those of the store.
    pub fn cancel(&self) -> Result<()> {
        self.connection.tables.remove_job(self.name())
    }
}

impl RemoteRuntime for ClusterJob {
    fn cores(&self) -> usize {
        RuntimeKind::Local.cores()
    }

    fn start(
        &self,
        _: &Stream,
        _: &Options,
        sinks: Vec<Sink>,
        progress: &Progress,
    ) -> Result<Box<dyn Execution>> {
        fetch(&self.connection, &self.plan, None, ResultSinks::OfShards(sinks), progress)
    }
}
