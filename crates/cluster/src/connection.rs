//! The connection of a process to a cluster: its store, and the network.

use crate::flight::Connections;
use crate::network::Network;
use crate::pull::Puller;
use crate::records::Tables;
use datafusion::common::Result;
use std::sync::Arc;
use tokio::runtime::Handle;
use whimbrel_control::ControlStore;

/// The connection of a process to a cluster.
pub struct Connection {
    /// What the cluster keeps in its store.
    pub tables: Tables,
    network: Network,
    connections: Arc<Connections>,
}

impl Connection {
    /// Connects to the cluster that meets in a store.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there are no threads.
    pub fn open(store: Arc<dyn ControlStore>) -> Result<Connection> {
        Ok(Connection { tables: Tables { store }, network: Network::start()?, connections: Arc::default() })
    }

    /// Where tasks of the network are given to it.
    pub fn network(&self) -> &Handle {
        self.network.handle()
    }

    /// What reads queues of workers.
    pub fn puller(&self) -> Puller {
        let network = self.network.handle().clone();
        Puller { network, connections: Arc::clone(&self.connections), own: None }
    }
}
