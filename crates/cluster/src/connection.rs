//! The connection of a process to a cluster: its store, and the network.

use crate::activity::{Activities, JobActivity};
use crate::backup::Backup;
use crate::flight::Connections;
use crate::identity::Identity;
use crate::live_workers::{LiveWorker, live_workers};
use crate::pull::{OnUnreachable, OwnQueues, Puller};
use crate::records::Tables;
use datafusion::common::Result;
use futures::future::join_all;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;
use whimbrel_control::ControlStore;
use whimbrel_sharded::runtime::Network;

/// The connection of a process to a cluster.
pub struct Connection {
    /// What the cluster keeps in its store.
    pub tables: Tables,
    /// Who belongs to the cluster.
    pub identity: Identity,
    /// The jobs that run in this process.
    pub activities: Arc<Activities>,
    network: Network,
    connections: Arc<Connections>,
    own: OnceLock<OwnQueues>,
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
        let (network, activities) = (Network::start()?, Arc::default());
        Ok(Connection { tables, identity, activities, network, connections, own: OnceLock::new() })
    }

    /// Learns that this process is a worker: where its frames can be had, and what keeps them. It reads these
    /// without the network. Only the first call counts.
    pub fn set_own_queues(&self, address: &str, backup: &Arc<Backup>) {
        self.own.get_or_init(|| OwnQueues { address: address.to_string(), backup: Arc::clone(backup) });
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

    /// What a job does on all workers that can be reached.
    ///
    /// # Errors
    /// Those of the store; `Plan` in a fork of the process that has connected.
    pub fn activity(&self, job: &str) -> Result<JobActivity> {
        let live = live_workers(&self.tables)?;
        let (connections, job) = (Arc::clone(&self.connections), job.to_string());
        self.network.wait(async move {
            let ask = |worker: &LiveWorker| {
                let (connections, address, job) = (&connections, worker.record.address.clone(), &job);
                async move { connections.activity(&address, job).await }
            };
            let mut activity = JobActivity::default();
            // One that does not answer is gone, or will be heard of again.
            join_all(live.iter().map(ask)).await.into_iter().flatten().for_each(|own| activity.join(own));
            Ok(activity)
        })
    }

    /// What reads queues of workers.
    pub fn puller(&self) -> Puller {
        let network = self.network.handle().clone();
        Puller {
            network,
            connections: Arc::clone(&self.connections),
            own: self.own.get().cloned(),
            unreachable: OnUnreachable::Retry,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::{Keeps, QueueName};
    use crate::pull::Places;
    use crate::records::ChannelRecord;
    use tokio::sync::watch;
    use tokio::task::JoinSet;
    use whimbrel_control::MemoryStore;
    use whimbrel_sharded::runtime::{Frame, Item};

    #[test]
    fn own_queues_are_read_without_the_network() {
        // Nobody listens there.
        let address = "127.0.0.1:1";
        let connection = Connection::open(Arc::new(MemoryStore::default())).unwrap();
        let backup = Arc::new(Backup::new(&std::env::temp_dir(), 1 << 20, None));
        connection.set_own_queues(address, &backup);
        let name = QueueName { job: "job".into(), queue: 0 };
        let queue = backup.begin(name.clone(), Keeps::All);
        queue.announce(queue.append(Frame::of(0, Item::End)).unwrap());
        let channels = vec![ChannelRecord { worker: "w".into(), attempt: 0, ended: false }];
        let addresses = [("w".to_string(), address.to_string())].into();
        let places = watch::Sender::new(Places { channels, addresses, is_over: false });
        let (mut pulls, moved) = (JoinSet::new(), Arc::default());
        let puller = connection.puller();
        let mut frames = puller.pull(&mut pulls, name, 0, places.subscribe(), &moved, None);
        assert!(frames.blocking_recv().unwrap().is_end());
    }
}
