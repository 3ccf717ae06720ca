//! Arguments of `whimbrel cluster`.

use clap::Subcommand;

/// What is done with a cluster.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// Print the workers, the virtual clusters, the datasets, and how far each stage of each job is.
    Status {
        /// The address of the cluster: that of its Redis, as redis://host:6379?cluster=name.
        cluster: String,
    },
    /// Print the status every second, until Ctrl-C.
    Top {
        /// The address of the cluster: that of its Redis, as redis://host:6379?cluster=name.
        cluster: String,
    },
    /// Give a worker nothing new, and wait until it has nothing to do.
    Drain {
        /// The address of the cluster: that of its Redis, as redis://host:6379?cluster=name.
        cluster: String,
        /// The name or the address of the worker, as `status` prints them.
        worker: String,
    },
}
