//! What the host of a live job and its members tell each other. Notes are frames of queues: each member has
//! one with the host's orders, and one with its reports.

use crate::backup::{Backup, Keeps, QueueBackup, QueueName};
use datafusion::common::{DataFusionError, Result, exec_err};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use whimbrel_sharded::error::Failure;
use whimbrel_sharded::runtime::{ChannelStart, Frame, Item, SourceOrder};
use whimbrel_sharded::{JobSpec, Report};

/// What a host tells a member: the plan, then what each of its channels goes on from, then orders.
#[derive(Debug, Serialize, Deserialize)]
pub enum HostNote {
    /// The plan of the job.
    Plan(JobSpec),
    /// What a channel goes on from.
    Channel(usize, ChannelStart),
    /// An order for a source.
    Order(usize, SourceOrder),
}

/// What a member tells the host.
#[derive(Debug, Serialize, Deserialize)]
pub enum MemberNote {
    /// Something has happened in a channel.
    Report(Report),
    /// A channel has failed, and would fail again.
    Failed(Failure),
    /// A channel has lost others that it needs.
    Interrupted(String),
}

/// The names of an attempt's queues, in the backups of host and members.
#[derive(Debug, Clone)]
pub struct AttemptQueues {
    attempt: String,
}

impl AttemptQueues {
    /// The names for an attempt of a job.
    pub fn of(job: &str, attempt: u32) -> AttemptQueues {
        AttemptQueues { attempt: format!("live/{job}/{attempt}") }
    }

    /// The job whose queues carry the items of channels.
    pub fn items(&self) -> String {
        format!("{}/items", self.attempt)
    }

    /// The orders for a member.
    pub fn orders(&self, member: usize) -> QueueName {
        QueueName { job: format!("{}/orders", self.attempt), queue: member }
    }

    /// The reports of a member.
    pub fn reports(&self, member: usize) -> QueueName {
        QueueName { job: format!("{}/reports", self.attempt), queue: member }
    }

    /// Gives up all that this worker has of the attempt as its host.
    pub fn remove_orders(&self, backup: &Backup) {
        backup.remove(&self.orders(0).job);
    }

    /// Gives up all that this worker has of the attempt as a member.
    pub fn remove_items(&self, backup: &Backup) {
        backup.remove(&self.items());
        backup.remove(&self.reports(0).job);
    }
}

/// A queue of notes that is filled here. Clones fill the same queue.
#[derive(Clone)]
pub struct NoteSender {
    queue: Arc<QueueBackup>,
    /// The number of the next note.
    next: Arc<Mutex<u64>>,
}

impl NoteSender {
    /// Begins a queue.
    pub fn begin(backup: &Backup, name: QueueName) -> NoteSender {
        NoteSender { queue: backup.begin(name, Keeps::Unread), next: Arc::default() }
    }

    /// Appends a note.
    ///
    /// # Errors
    /// `ResourcesExhausted` if the disk is full.
    pub fn send(&self, note: &impl Serialize) -> Result<()> {
        let bytes =
            postcard::to_stdvec(note).map_err(|error| DataFusionError::Internal(error.to_string()))?;
        self.append(|number| Frame::of_note(number, bytes))
    }

    /// Ends the queue.
    ///
    /// # Errors
    /// As [`send`](NoteSender::send).
    pub fn end(&self) -> Result<()> {
        self.append(|number| Ok(Frame::of(number, Item::End)))
    }

    fn append(&self, frame: impl FnOnce(u64) -> Result<Frame>) -> Result<()> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = self.queue.append(frame(*next)?)?;
        *next += 1;
        self.queue.announce(frames);
        Ok(())
    }
}

/// What a queue of notes has next.
#[derive(Debug)]
pub enum Next<T> {
    /// A note.
    Note(T),
    /// The queue was ended.
    End,
    /// The queue was lost.
    Lost,
}

/// The next note of a queue that is pulled; waits for it.
///
/// # Errors
/// `Execution` if it was changed on its way.
pub fn receive<T: DeserializeOwned>(frames: &mut mpsc::Receiver<Frame>) -> Result<Next<T>> {
    match frames.blocking_recv() {
        None => Ok(Next::Lost),
        Some(frame) if frame.is_end() => Ok(Next::End),
        Some(frame) => match postcard::from_bytes(&frame.note()?) {
            Ok(note) => Ok(Next::Note(note)),
            Err(error) => exec_err!("a note of a live job cannot be read: {error}"),
        },
    }
}
