//! Where queries run, if not in this process.

use pyo3::prelude::*;
use std::sync::Arc;
use whimbrel_functions::Functions;
use whimbrel_sharded::runtime::RemoteRuntime;

use crate::cluster::{NativeCluster, NativeClusterJob};
use crate::function_service::NativeFunctions;

/// Where a query runs.
#[derive(FromPyObject)]
pub enum Remote<'py> {
    /// On a cluster.
    Cluster(Bound<'py, NativeCluster>),
    /// It runs already, as this job.
    Job(Bound<'py, NativeClusterJob>),
    /// On functions.
    Functions(Bound<'py, NativeFunctions>),
}

impl Remote<'_> {
    /// The functions that it is, if it is some.
    pub fn functions(&self) -> Option<Functions> {
        match self {
            Remote::Functions(functions) => Some(functions.get().functions.clone()),
            _ => None,
        }
    }

    /// The runtime.
    pub fn runtime(self) -> Arc<dyn RemoteRuntime> {
        match self {
            Remote::Cluster(cluster) => Arc::clone(&cluster.get().cluster) as _,
            Remote::Job(job) => Arc::clone(&job.get().job) as _,
            Remote::Functions(functions) => Arc::new(functions.get().functions.clone()),
        }
    }
}
