//! A query that is ready to run in one process: its channels, and the queues between them.

use super::channel::Channel;
use super::topology::Queue;

/// A query that is ready to run; a [`Runtime`](super::Runtime) runs it.
pub struct Wiring {
    pub(super) channels: Vec<Channel>,
    pub(super) queues: Vec<Queue>,
    pub(super) rows_total: Option<u64>,
}

impl Wiring {
    /// How many rows will be read, if that is known of all sources.
    pub fn rows_total(&self) -> Option<u64> {
        self.rows_total
    }
}
