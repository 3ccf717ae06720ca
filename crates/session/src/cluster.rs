//! Clusters, by the addresses of their control stores.

use crate::references::PlanReferences;
use datafusion::common::{DataFusionError, Result, plan_err};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use whimbrel_cluster::{Cluster, Worker, WorkerOptions};
use whimbrel_control::{ControlStore, RedisOptions, RedisStore};

/// The cluster that a store has if its address names none.
const DEFAULT_NAME: &str = "whimbrel";

/// How many bytes of frames a worker keeps in memory unless it is told otherwise.
pub const BACKUP_MEMORY: usize = 1 << 30;

/// The cluster at an address: `redis://host:port?cluster=name`.
///
/// # Errors
/// `Plan` if it is no such address; `Execution` if the store cannot be reached.
pub fn connect(address: &str) -> Result<Arc<Cluster>> {
    Ok(Arc::new(Cluster::connect(open_store(address)?, Arc::new(PlanReferences))?))
}

/// A worker of the cluster at an address.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Where it listens for consumers of its frames; port 0 is any.
    pub listen: SocketAddr,
    /// Under which host others find it; by default the address that it listens on.
    pub host: Option<String>,
    /// How many channels it runs at the same time; by default as many as there are cores.
    pub threads: Option<usize>,
    /// Where frames are kept that do not fit into the memory; by default the folder for temporary files.
    pub folder: Option<PathBuf>,
    /// How many bytes of frames are kept in memory.
    pub backup_memory: usize,
}

impl Default for WorkerSettings {
    fn default() -> WorkerSettings {
        WorkerSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            host: None,
            threads: None,
            folder: None,
            backup_memory: BACKUP_MEMORY,
        }
    }
}

/// Starts a worker of the cluster at an address.
///
/// # Errors
/// As [`connect`]; `Execution` if it cannot listen.
pub fn start_worker(address: &str, settings: &WorkerSettings) -> Result<Worker> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = WorkerOptions {
        listen: settings.listen,
        host: settings.host.clone(),
        threads: u32::try_from(settings.threads.unwrap_or(cores)).unwrap_or(u32::MAX),
        folder: settings.folder.clone().unwrap_or_else(std::env::temp_dir),
        backup_memory: settings.backup_memory,
    };
    Worker::start(open_store(address)?, Arc::new(PlanReferences), &options)
}

/// Opens the control store at an address.
fn open_store(address: &str) -> Result<Arc<dyn ControlStore>> {
    if !address.starts_with("redis://") {
        return plan_err!(
            "`{}` is no address of a cluster; it is that of its Redis, as redis://host:6379?cluster=name",
            whimbrel_plan::source::redacted(address)
        );
    }
    let (url, name) = match address.split_once("?cluster=") {
        Some((url, name)) => (url, name),
        None => (address, DEFAULT_NAME),
    };
    match RedisStore::open(url, name, RedisOptions::default()) {
        Ok(store) => Ok(Arc::new(store)),
        Err(whimbrel_control::Error::Invalid(text)) => plan_err!("{text}"),
        Err(error) => Err(DataFusionError::Execution(format!(
            "{error}. A cluster meets in a Redis: install one (the Debian package redis-server), start it with \
             `redis-server --appendonly yes`, and give its address"
        ))),
    }
}
