//! What a node of a graph has done so far, for whoever watches a query while it runs.
//!
//! Invariant: only the thread of the graph writes; any thread may read at any time. A reader may see one
//! number before another that was written first: these are reports, and nothing is computed from them.

use crate::batch::Message;
use crate::time::{BEGINNING, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The counters of a node.
#[derive(Debug)]
pub struct Activity {
    rows: AtomicU64,
    latest: AtomicI64,
    frontier: AtomicI64,
    held: AtomicU64,
}

/// What a node has done, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeProgress {
    /// How many rows it has handed out.
    pub rows: u64,
    /// The time of the last of them, or [`BEGINNING`].
    pub latest: Time,
    /// No row before this time will come out of it.
    pub frontier: Time,
    /// How many rows, or groups of rows, it keeps.
    pub held: u64,
}

/// A node of a graph, as its watchers see it.
#[derive(Debug, Clone)]
pub struct NodeActivity {
    /// What the node is.
    pub name: &'static str,
    /// The numbers of the nodes that it reads; none: it is an input of the graph.
    pub inputs: Vec<usize>,
    /// Its counters.
    pub activity: Arc<Activity>,
}

impl Default for Activity {
    fn default() -> Activity {
        Activity {
            rows: AtomicU64::new(0),
            latest: AtomicI64::new(BEGINNING),
            frontier: AtomicI64::new(BEGINNING),
            held: AtomicU64::new(0),
        }
    }
}

impl Activity {
    /// Takes note of a message that the node hands out.
    pub(crate) fn hand_out(&self, message: &Message) {
        match message {
            Message::Punctuation(time) => self.frontier.store(*time, Ordering::Relaxed),
            Message::Batch(batch) => {
                let (rows, last) = match batch.present() {
                    None => (batch.len(), batch.len().checked_sub(1)),
                    Some(rows) => {
                        (rows.count_set_bits(), (0..batch.len()).rev().find(|row| rows.value(*row)))
                    }
                };
                self.rows.store(self.rows.load(Ordering::Relaxed) + rows as u64, Ordering::Relaxed);
                if let Some(last) = last {
                    self.latest.store(batch.sync[last], Ordering::Relaxed);
                }
            }
        }
    }

    /// Takes note of how much the node keeps.
    pub(crate) fn hold(&self, held: usize) {
        self.held.store(held as u64, Ordering::Relaxed);
    }

    /// What the node has done so far.
    pub fn progress(&self) -> NodeProgress {
        NodeProgress {
            rows: self.rows.load(Ordering::Relaxed),
            latest: self.latest.load(Ordering::Relaxed),
            frontier: self.frontier.load(Ordering::Relaxed),
            held: self.held.load(Ordering::Relaxed),
        }
    }
}
