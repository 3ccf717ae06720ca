//! How a worker starts the channels of jobs. A simulation starts others than the real ones.

use crate::plan::Plan;
use crate::pull::Places;
use crate::records::Schedule;
use datafusion::common::{DataFusionError, Result};
use std::ops::Add;
use std::sync::Arc;
use tokio::sync::watch;

/// A channel that is to begin.
pub struct Begin<'a> {
    /// The plan of its job.
    pub plan: &'a Arc<Plan>,
    /// The number of the channel.
    pub channel: usize,
    /// How often it was begun before.
    pub attempt: u32,
    /// The version of its row.
    pub version: u64,
    /// How the channels of the job are scheduled.
    pub schedule: Schedule,
    /// Where the channels of the job are.
    pub places: watch::Receiver<Places>,
}

/// A channel that runs; dropping it stops the channel.
pub trait Run: Send {
    /// Says whether all consumers have ended.
    fn set_abandoned(&self, abandoned: bool);

    /// What it has done so far.
    fn counts(&self) -> RunCounts;
}

/// What a run has done; as in [`RunRecord`](crate::records::RunRecord).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// How many steps have handed out something.
    pub tasks: u64,
    /// How many rows it has taken.
    pub rows: u64,
    /// How many rows came too late for it.
    pub late_rows: u64,
    /// How many bytes it has fetched from other workers.
    pub moved_bytes: u64,
    /// How many bytes of what it sent are on the disk.
    pub spilled_bytes: u64,
}

impl Add for RunCounts {
    type Output = RunCounts;

    fn add(self, other: RunCounts) -> RunCounts {
        RunCounts {
            tasks: self.tasks + other.tasks,
            rows: self.rows + other.rows,
            late_rows: self.late_rows + other.late_rows,
            moved_bytes: self.moved_bytes + other.moved_bytes,
            spilled_bytes: self.spilled_bytes + other.spilled_bytes,
        }
    }
}

/// Starts channels, and keeps what they send.
pub trait Launcher: Send {
    /// Starts a channel on the worker of this name.
    ///
    /// # Errors
    /// Those of the store; `ResourcesExhausted` if there is no thread for it.
    fn start(&self, own: &str, begin: Begin<'_>) -> Result<Box<dyn Run>>;

    /// Gives up what channels of a job have sent to each other in a queue.
    fn remove_queue(&self, job: &str, queue: usize);

    /// Gives up all that channels of a job have sent.
    fn remove_job(&self, job: &str);
}

/// A channel has ended here.
pub struct Finished {
    /// The job.
    pub job: String,
    /// The number of the channel.
    pub channel: usize,
    /// Which of its attempts it was.
    pub attempt: u32,
    /// Why it failed, if it did.
    pub failure: Option<DataFusionError>,
}
