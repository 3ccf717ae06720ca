//! The connection of a process to a cluster: its store, and the network.

use crate::flight::Connections;
use crate::identity::Identity;
use crate::pull::{OnUnreachable, Puller};
use crate::records::Tables;
use datafusion::common::Result;
use std::sync::Arc;
use tokio::runtime::Handle;
use whimbrel_control::ControlStore;
use whimbrel_sharded::runtime::Network;

/// The connection of a process to a cluster.
pub struct Connection {
    /// What the cluster keeps in its store.
    pub tables: Tables,
    /// Who belongs to the cluster.
    pub identity: Identity,
    network: Network,
    connections: Arc<Connections>,
}

impl Connection {
    /// Connects to the cluster that meets in a store.
    ///
    /// # Errors
    /// Those of the store; `ResourcesExhausted` if there are no threads.
    pub fn open(store: Arc<dyn ControlStore>) -> Result<Connection> {
        let tables = Tables { store };
        let identity = Identity::of(&tables)?;
        let connections = Arc::new(Connections::new(identity.clone()));
        Ok(Connection { tables, identity, network: Network::start()?, connections })
    }

    /// Checks that this process has connected.
    ///
    /// # Errors
    /// `Plan` if it is a fork of the one that has.
    pub fn check_process(&self) -> Result<()> {
        self.network.check_process()
    }

    /// Where tasks of the network are given to it.
    pub fn network(&self) -> &Handle {
        self.network.handle()
    }

    /// What reads queues of workers.
    pub fn puller(&self) -> Puller {
        let network = self.network.handle().clone();
        Puller {
            network,
            connections: Arc::clone(&self.connections),
            own: None,
            unreachable: OnUnreachable::Retry,
        }
    }
}
