//! Arguments of workers.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use whimbrel_session::cluster::{BACKUP_MEMORY, WorkerSettings};

/// A worker of a cluster.
#[derive(Debug, Args)]
pub struct Worker {
    /// The address of the cluster: that of its Redis, as redis://host:6379?cluster=name.
    pub cluster: String,
    /// Where it listens for consumers of what it computes; port 0 is any.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Under which host others find it; by default the address that it listens on.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Where what it computes is kept if it does not fit into the memory; by default the folder for temporary
    /// files.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// How much of that is kept in memory, as 512MB or 2GiB.
    #[arg(long, value_name = "SIZE", value_parser = super::settings::bytes, default_value_t = BACKUP_MEMORY)]
    backup_memory: usize,
    /// How much of that is kept on the disk at most, as 50GB; by default as much as the disk takes. A job
    /// that needs more ends with an error.
    #[arg(long, value_name = "SIZE", value_parser = super::settings::bytes)]
    backup_disk: Option<usize>,
    /// Where its metrics can be had, as http://ADDRESS/metrics in the text format of Prometheus.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
}

impl Worker {
    /// The settings of the worker, which runs so many channels at the same time.
    pub fn settings(&self, threads: Option<usize>) -> WorkerSettings {
        WorkerSettings {
            listen: self.listen,
            host: self.host.clone(),
            threads,
            folder: self.folder.clone(),
            backup_memory: self.backup_memory as u64,
            backup_disk: self.backup_disk.map(|bytes| bytes as u64),
            metrics: self.metrics,
        }
    }
}
