//! Who takes part in an attempt of a live job: its host, and the workers that run its channels.

use super::notes::AttemptQueues;
use super::record::LiveJobRecord;
use crate::activity::Watch;
use crate::backup::Backup;
use crate::connection::Connection;
use crate::pull::{OnUnreachable, Places, Puller};
use crate::records::ChannelRecord;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use whimbrel_sharded::program::ChannelId;
use whimbrel_sharded::runtime::Progress;

/// What a worker brings to the live jobs that it hosts or is a member of.
#[derive(Clone)]
pub struct Station {
    /// Its connection to the cluster.
    pub connection: Arc<Connection>,
    /// What it keeps for others.
    pub backup: Arc<Backup>,
}

/// An attempt of a live job, as one of those who take part sees it.
#[derive(Clone)]
pub struct Team {
    /// The names of its queues.
    pub queues: AttemptQueues,
    job: String,
    record: LiveJobRecord,
    addresses: BTreeMap<String, String>,
    station: Station,
    own: String,
}

impl Team {
    /// The team of the attempt that a row names, as the worker of this name sees it.
    pub fn of(
        station: &Station,
        own: &str,
        job: &str,
        record: &LiveJobRecord,
        addresses: BTreeMap<String, String>,
    ) -> Team {
        Team {
            queues: AttemptQueues::of(job, record.attempt),
            job: job.to_string(),
            record: record.clone(),
            addresses,
            station: station.clone(),
            own: own.to_string(),
        }
    }

    /// The workers that run channels, each once, in the order of their numbers.
    pub fn members(&self) -> Vec<&str> {
        self.record.members()
    }

    /// The number of this worker among the members.
    pub fn own_number(&self) -> Option<usize> {
        self.members().iter().position(|member| *member == self.own)
    }

    /// The number of the member that runs a channel.
    pub fn member_of(&self, channel: ChannelId) -> usize {
        let worker = self.worker_of(channel);
        self.members().iter().position(|member| *member == worker).unwrap_or_default()
    }

    /// Whether this worker runs a channel.
    pub fn is_own(&self, channel: ChannelId) -> bool {
        self.worker_of(channel) == self.own
    }

    fn worker_of(&self, channel: ChannelId) -> &str {
        &self.record.slots[channel.channel % self.record.slots.len()]
    }

    /// Lets others see what this worker does for the job.
    pub fn watch(&self, progress: &Progress) -> Watch {
        self.station.connection.activities.watch(&self.job, progress)
    }

    /// What reads queues of this team.
    pub fn puller(&self) -> Puller {
        Puller { unreachable: OnUnreachable::GiveUp, ..self.station.connection.puller() }
    }

    /// What this worker keeps for others.
    pub fn backup(&self) -> &Arc<Backup> {
        &self.station.backup
    }

    /// Where the channels of a query are; they stay there as long as the attempt lasts.
    pub fn places(&self, channels: &[ChannelId]) -> Places {
        self.places_of(channels.iter().map(|id| self.worker_of(*id)))
    }

    /// Where the reports of members come from, by the members' numbers.
    pub fn members_places(&self) -> watch::Sender<Places> {
        watch::Sender::new(self.places_of(self.members().into_iter()))
    }

    /// Where orders come from.
    pub fn host_place(&self) -> watch::Sender<Places> {
        watch::Sender::new(self.places_of(self.record.host.as_deref().into_iter()))
    }

    fn places_of<'a>(&self, workers: impl Iterator<Item = &'a str>) -> Places {
        let record = |worker: &str| ChannelRecord { worker: worker.to_string(), attempt: 0, ended: false };
        let channels = workers.map(record).collect();
        Places { channels, addresses: self.addresses.clone(), is_over: false }
    }
}
