//! A query that is ready to run: its channels, and the queues between them.

use super::channel::Channel;

/// A query that is ready to run; a [`Runtime`](super::Runtime) runs it.
pub struct Wiring {
    pub(super) channels: Vec<Channel>,
    pub(super) queues: Vec<Queue>,
    pub(super) rows_total: Option<u64>,
}

/// The ends of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    /// The channel that fills it.
    pub producer: usize,
    /// The channel that reads it.
    pub consumer: usize,
}

impl Wiring {
    /// How many rows will be read, if that is known of all sources.
    pub fn rows_total(&self) -> Option<u64> {
        self.rows_total
    }
}
