//! Clusters: where queries run in other processes, the workers that run them, and their jobs.

use datafusion::common::Result;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use whimbrel_cluster::{
    Cluster, ClusterJob, JobActivity, JobStatistics, JobStatus, Lifetime, LiveWorker, Schedule, Worker,
};
use whimbrel_plan::Stream;
use whimbrel_session::cluster::{WorkerSettings, connect, start_worker};
use whimbrel_session::durable::wall_duration;
use whimbrel_sharded::Options;
use whimbrel_sharded::runtime::RemoteRuntime;

use crate::activity::{self, OperatorTuple};
use crate::arguments::{Length, deadline};
use crate::error::{OrRaise, invalid, raise};
use crate::plan::NativePlan;
use crate::shutdown::detach;

/// How often signals are handled while a job is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A cluster, as a client sees it: all of it, or a virtual cluster.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Cluster")]
pub struct NativeCluster {
    /// The runtime of queries.
    pub cluster: Arc<Cluster>,
}

impl NativeCluster {
    fn of(cluster: Cluster) -> NativeCluster {
        NativeCluster { cluster: Arc::new(cluster) }
    }
}

/// What a job does: rows that were read, that came out, and that were late; and its operators.
pub type ActivityTuple = (u64, u64, u64, Vec<OperatorTuple>);

/// What a job does on its workers.
///
/// # Errors
/// Those of the store; what making a time raises.
pub fn activity_of_job(
    py: Python<'_>,
    activity: impl FnOnce() -> Result<JobActivity> + Send,
    stream: impl FnOnce() -> Result<Stream> + Send,
) -> PyResult<ActivityTuple> {
    // A process that does not know what the plan refers to gets instants as integers.
    let clock = || stream().ok().and_then(|stream| stream.properties().time.clone());
    let (done, clock) = detach(py, || activity().map(|done| (done, clock()))).or_raise()?;
    let operators = activity::tuples(py, done.operators, clock.as_ref())?;
    Ok((done.rows_read, done.rows_out, done.rows_late, operators))
}

/// A worker: its name, its address, its process, how many threads it has, its virtual cluster, and whether it
/// drains.
type WorkerTuple = (String, String, u32, u32, Option<String>, bool);

#[pymethods]
impl NativeCluster {
    /// The cluster at an address.
    #[new]
    fn new(py: Python<'_>, address: &str) -> PyResult<NativeCluster> {
        Ok(NativeCluster { cluster: detach(py, || connect(address)).or_raise()? })
    }

    /// The same cluster, with another schedule for queries.
    fn with_schedule(&self, pipelined: bool, dynamic: bool) -> NativeCluster {
        let schedule = Schedule { is_pipelined: pipelined, is_dynamic: dynamic };
        NativeCluster::of(self.cluster.with_schedule(schedule))
    }

    /// The name of the virtual cluster, if it is one.
    fn name(&self) -> Option<&str> {
        self.cluster.name()
    }

    /// The workers that are alive.
    fn workers(&self, py: Python<'_>) -> PyResult<Vec<WorkerTuple>> {
        let live = detach(py, || self.cluster.workers()).or_raise()?;
        let worker = |LiveWorker { name, record, membership, .. }: LiveWorker| {
            let (cluster, is_draining) = (membership.cluster, membership.is_draining);
            (name, record.address, record.process, record.threads, cluster, is_draining)
        };
        Ok(live.into_iter().map(worker).collect())
    }

    /// How many channels of a query run at the same time.
    fn cores(&self, py: Python<'_>) -> usize {
        detach(py, || self.cluster.cores())
    }

    /// The names of the jobs that are there.
    fn jobs(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let jobs = detach(py, || self.cluster.jobs()).or_raise()?;
        Ok(jobs.into_iter().map(|(name, _)| name).collect())
    }

    /// A job that is there.
    fn job(&self, py: Python<'_>, name: &str) -> PyResult<NativeClusterJob> {
        Ok(NativeClusterJob { job: Arc::new(detach(py, || self.cluster.job(name)).or_raise()?) })
    }

    /// Submits a plan, whose result is kept for so long.
    fn submit(&self, py: Python<'_>, plan: &NativePlan, keep: Length) -> PyResult<NativeClusterJob> {
        let lifetime = Lifetime::Seconds(wall_duration(&keep.0, "keep").or_raise()?.as_secs());
        let submit = || self.cluster.submit(&plan.stream, &Options::default(), lifetime);
        Ok(NativeClusterJob { job: Arc::new(detach(py, submit).or_raise()?) })
    }

    /// The names of the live jobs that are there.
    fn live_jobs(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let jobs = detach(py, || self.cluster.live_jobs()).or_raise()?;
        Ok(jobs.into_iter().map(|(name, _)| name).collect())
    }

    /// Creates a virtual cluster.
    fn create_cluster(&self, py: Python<'_>, name: &str, workers: usize) -> PyResult<NativeCluster> {
        Ok(NativeCluster::of(detach(py, || self.cluster.create_cluster(name, workers)).or_raise()?))
    }

    /// A virtual cluster that is there.
    fn cluster(&self, py: Python<'_>, name: &str) -> PyResult<NativeCluster> {
        Ok(NativeCluster::of(detach(py, || self.cluster.cluster(name)).or_raise()?))
    }

    /// The names of the virtual clusters.
    fn clusters(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detach(py, || self.cluster.clusters()).or_raise()
    }

    /// Ends the virtual cluster.
    fn tear_down(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || self.cluster.tear_down()).or_raise()
    }

    /// Gives the virtual cluster more workers.
    fn add_workers(&self, py: Python<'_>, workers: usize) -> PyResult<()> {
        detach(py, || self.cluster.add_workers(workers)).or_raise()
    }

    /// Gives a worker no more channels.
    fn drain(&self, py: Python<'_>, worker: &str) -> PyResult<()> {
        detach(py, || self.cluster.drain(worker)).or_raise()
    }

    /// Gives a name to a plan.
    fn create_dataset(&self, py: Python<'_>, name: &str, plan: &NativePlan) -> PyResult<()> {
        detach(py, || self.cluster.create_dataset(name, &plan.stream)).or_raise()
    }

    /// Runs a plan, and keeps its result in the memory of the workers.
    fn store_dataset(&self, py: Python<'_>, name: &str, plan: &NativePlan) -> PyResult<NativePlan> {
        let begin = || self.cluster.begin_dataset(name, &plan.stream, &Options::default());
        let job = detach(py, begin).or_raise()?;
        let stored = wait_until(py, None, |until| job.wait(Some(until)))
            .and_then(|_| detach(py, || self.cluster.name_dataset(name, &job)).or_raise());
        if stored.is_err() {
            // The error says more.
            let _ = detach(py, || job.cancel());
        }
        Ok(NativePlan { stream: stored? })
    }

    /// The names of the datasets, and whether their rows are in the memory of the workers.
    fn datasets(&self, py: Python<'_>) -> PyResult<Vec<(String, bool)>> {
        let datasets = detach(py, || self.cluster.datasets()).or_raise()?;
        Ok(datasets.into_iter().map(|(name, record)| (name, record.job.is_some())).collect())
    }

    /// A plan that reads a dataset.
    fn dataset(&self, py: Python<'_>, name: &str) -> PyResult<NativePlan> {
        Ok(NativePlan { stream: detach(py, || self.cluster.dataset(name)).or_raise()? })
    }

    /// Removes a dataset.
    fn remove_dataset(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        detach(py, || self.cluster.remove_dataset(name)).or_raise()
    }
}

/// A job of a cluster.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "ClusterJob")]
pub struct NativeClusterJob {
    /// The job, as the runtime of its result.
    pub job: Arc<ClusterJob>,
}

/// Waits for the end of a job of a cluster, or so many seconds, and handles signals meanwhile; whether it has
/// ended.
pub fn wait_until(
    py: Python<'_>,
    seconds: Option<f64>,
    wait: impl Fn(Instant) -> datafusion::error::Result<bool> + Sync,
) -> PyResult<bool> {
    let until = deadline(seconds);
    loop {
        let poll = Instant::now() + POLL_INTERVAL;
        let next = until.map_or(poll, |until| until.min(poll));
        let has_ended = detach(py, || wait(next)).or_raise()?;
        py.check_signals()?;
        if has_ended || until.is_some_and(|until| Instant::now() >= until) {
            return Ok(has_ended);
        }
    }
}

/// A run of a channel: its stage, its channel, its attempt, the worker, when it began and was heard of last,
/// in milliseconds since 1970, whether it has ended, and how many rows it took.
type RunTuple = (usize, usize, u32, String, u64, u64, bool, u64);

#[pymethods]
impl NativeClusterJob {
    /// Its name.
    fn name(&self) -> &str {
        self.job.name()
    }

    /// The plan of the query.
    fn plan(&self, py: Python<'_>) -> PyResult<NativePlan> {
        Ok(NativePlan { stream: detach(py, || self.job.stream()).or_raise()? })
    }

    /// What has become of it, and why it has failed if it has.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, Option<Bound<'py, PyAny>>)> {
        Ok(match detach(py, || self.job.status()).or_raise()? {
            JobStatus::Running => ("running", None),
            JobStatus::Ended => ("ended", None),
            JobStatus::Failed(error) => {
                ("failed", Some(raise(error).into_value(py).into_bound(py).into_any()))
            }
        })
    }

    /// Waits for the end, or so many seconds; whether the job has ended.
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        wait_until(py, seconds, |until| self.job.wait(Some(until)))
    }

    /// How far each stage is: how many channels it has, how many have ended, how many rows they took.
    fn progress(&self, py: Python<'_>) -> PyResult<Vec<(usize, usize, u64)>> {
        let stages = detach(py, || self.job.progress()).or_raise()?;
        Ok(stages.into_iter().map(|stage| (stage.channels, stage.ended, stage.rows)).collect())
    }

    /// What the channels have done.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let JobStatistics {
            rows,
            replayed_rows,
            tasks,
            replayed_tasks,
            failures,
            lineage_bytes,
            moved_bytes,
            spilled_bytes,
            late_rows,
        } = detach(py, || self.job.statistics()).or_raise()?;
        let dict = PyDict::new(py);
        for (name, value) in [
            ("rows", rows),
            ("replayed_rows", replayed_rows),
            ("tasks", tasks),
            ("replayed_tasks", replayed_tasks),
            ("failures", failures),
            ("lineage_bytes", lineage_bytes),
            ("moved_bytes", moved_bytes),
            ("spilled_bytes", spilled_bytes),
            ("late_rows", late_rows),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// What its channels do that run: rows that were read, that came out, that were late; and its operators.
    fn activity(&self, py: Python<'_>) -> PyResult<ActivityTuple> {
        activity_of_job(py, || self.job.activity(), || self.job.stream())
    }

    /// Where and when its channels ran.
    fn timeline(&self, py: Python<'_>) -> PyResult<Vec<RunTuple>> {
        let runs = detach(py, || self.job.timeline()).or_raise()?;
        let run = |run: whimbrel_cluster::RunTime| {
            let record = run.record;
            let (stage, channel) = (run.id.stage, run.id.channel);
            let (began, seen) = (record.began, record.seen);
            (stage, channel, record.attempt, record.worker, began, seen, record.ended, record.rows)
        };
        Ok(runs.into_iter().map(run).collect())
    }

    /// Stops the job, and removes it with its result.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        detach(py, || self.job.cancel()).or_raise()
    }
}

/// A worker of a cluster, on threads of this process.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Worker")]
pub struct NativeWorker {
    address: String,
    worker: Mutex<Option<Worker>>,
}

#[pymethods]
impl NativeWorker {
    /// Starts a worker of the cluster at an address. `backup`: how many bytes of frames it keeps in memory,
    /// and how many on the disk at most.
    #[new]
    #[pyo3(signature = (cluster, listen, host, threads, folder, backup))]
    fn new(
        py: Python<'_>,
        cluster: &str,
        listen: &str,
        host: Option<String>,
        threads: Option<usize>,
        folder: Option<PathBuf>,
        backup: (Option<u64>, Option<u64>),
    ) -> PyResult<NativeWorker> {
        let Ok(listen) = listen.parse() else {
            return Err(invalid(format!("a worker listens on an address and a port, not on \"{listen}\"")));
        };
        let usual = WorkerSettings::default();
        let (backup_memory, backup_disk) = (backup.0.unwrap_or(usual.backup_memory), backup.1);
        let settings = WorkerSettings { listen, host, threads, folder, backup_memory, backup_disk, ..usual };
        let worker = detach(py, || start_worker(cluster, &settings)).or_raise()?;
        Ok(NativeWorker { address: worker.address().to_string(), worker: Mutex::new(Some(worker)) })
    }

    /// Where its frames can be had.
    fn address(&self) -> &str {
        &self.address
    }

    /// Stops it; what it ran is given to others.
    fn stop(&self, py: Python<'_>) {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        detach(py, || drop(worker));
    }
}
