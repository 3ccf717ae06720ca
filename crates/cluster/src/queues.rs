//! The queues of a channel: those that it reads are pulled, and those that it fills begun.

use crate::backup::{Backup, Keeps, QueueBackup, QueueName};
use crate::carrier::{Incoming, NetworkCarrier, Outgoing};
use crate::lineage::Choices;
use crate::pull::{Places, Puller};
use crate::statistics::Counters;
use crossbeam_channel::bounded;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use whimbrel_sharded::runtime::{LaneOrigin, Topology};

/// What the queues of a job's channels are connected with on a worker.
pub struct Queues<'a> {
    /// The job, as its queues name it.
    pub job: &'a str,
    /// Its channels and queues.
    pub topology: &'a Topology,
    /// Where its channels are.
    pub places: &'a watch::Receiver<Places>,
    /// What reads queues.
    pub puller: &'a Puller,
    /// What keeps those that are filled here, and how.
    pub backup: (&'a Backup, Keeps),
}

/// The queues of a channel.
pub struct Connected {
    /// What carries its items.
    pub carrier: NetworkCarrier,
    /// The queues that it fills.
    pub sent: Vec<Arc<QueueBackup>>,
    /// What reads its queues.
    pub pulls: JoinSet<()>,
}

impl Queues<'_> {
    /// Connects a channel that makes these choices.
    pub fn connect(&self, channel: usize, choices: Choices) -> Connected {
        let name = |queue| QueueName { job: self.job.to_string(), queue };
        let (backup, keeps) = self.backup;
        let (mut sent, mut outgoing) = (Vec::new(), BTreeMap::new());
        for queue in self.topology.edges(channel).iter().flat_map(|edge| &edge.targets).copied() {
            let begun = backup.begin(name(queue), keeps);
            sent.push(Arc::clone(&begun));
            outgoing.insert(queue, Outgoing::new(begun, choices.lineage(), self.is_read_here(queue)));
        }
        let counters = Arc::new(Counters::default());
        let (notify, arrivals) = bounded(1);
        let notify = choices.are_needed().then_some(notify);
        let (mut pulls, mut frames) = (JoinSet::new(), BTreeMap::new());
        for lane in self.topology.lanes(channel) {
            if let LaneOrigin::Queue(queue) = lane {
                let producer = self.topology.queues()[*queue].producer;
                let (places, moved) = (self.places.clone(), &counters.moved_bytes);
                let pulled =
                    self.puller.pull(&mut pulls, name(*queue), producer, places, moved, notify.clone());
                frames.insert(*queue, pulled);
            }
        }
        let incoming = Incoming { frames, arrivals, choices };
        let is_abandoned = Arc::default();
        let carrier = NetworkCarrier { incoming, outgoing, waiting: vec![], is_abandoned, counters };
        Connected { carrier, sent, pulls }
    }

    /// Whether the consumer of a queue runs on this worker.
    fn is_read_here(&self, queue: usize) -> bool {
        let consumer = self.places.borrow().of(self.topology.queues()[queue].consumer);
        let address = consumer.and_then(|(_, address)| address);
        self.puller.own.as_ref().is_some_and(|own| address.is_some_and(|address| address == own.address))
    }
}
