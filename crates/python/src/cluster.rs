//! Clusters: where queries run in other processes, and the workers that run them.

use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_cluster::{Cluster, LiveWorker, Worker};
use whimbrel_session::cluster::{WorkerSettings, connect, start_worker};
use whimbrel_sharded::runtime::RemoteRuntime;

use crate::error::{OrRaise, invalid};

/// A cluster, as a client sees it.
#[pyclass(frozen, module = "whimbrel._whimbrel", name = "Cluster")]
pub struct NativeCluster {
    /// The runtime of queries.
    pub cluster: Arc<Cluster>,
}

#[pymethods]
impl NativeCluster {
    /// The cluster at an address.
    #[new]
    fn new(py: Python<'_>, address: &str) -> PyResult<NativeCluster> {
        Ok(NativeCluster { cluster: py.detach(|| connect(address)).or_raise()? })
    }

    /// The workers that are alive: name, address, process and number of threads of each.
    fn workers(&self, py: Python<'_>) -> PyResult<Vec<(String, String, u32, u32)>> {
        let live = py.detach(|| self.cluster.workers()).or_raise()?;
        let worker =
            |live: LiveWorker| (live.name, live.record.address, live.record.process, live.record.threads);
        Ok(live.into_iter().map(worker).collect())
    }

    /// How many channels of a query run at the same time.
    fn cores(&self, py: Python<'_>) -> usize {
        py.detach(|| self.cluster.cores())
    }

    /// The names of the jobs that are there.
    fn jobs(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| self.cluster.jobs()).or_raise()
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
    /// Starts a worker of the cluster at an address.
    #[new]
    #[pyo3(signature = (cluster, listen, host, threads, folder))]
    fn new(
        py: Python<'_>,
        cluster: &str,
        listen: &str,
        host: Option<String>,
        threads: Option<usize>,
        folder: Option<PathBuf>,
    ) -> PyResult<NativeWorker> {
        let Ok(listen) = listen.parse() else {
            return Err(invalid(format!("a worker listens on an address and a port, not on \"{listen}\"")));
        };
        let settings = WorkerSettings { listen, host, threads, folder, ..WorkerSettings::default() };
        let worker = py.detach(|| start_worker(cluster, &settings)).or_raise()?;
        Ok(NativeWorker { address: worker.address().to_string(), worker: Mutex::new(Some(worker)) })
    }

    /// Where its frames can be had.
    fn address(&self) -> &str {
        &self.address
    }

    /// Stops it; what it ran is given to others.
    fn stop(&self, py: Python<'_>) {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(worker));
    }
}
