//! What a node of a graph has done so far, and what it keeps, for whoever watches a query while it runs.
//!
//! Invariants: only the thread of the graph counts; any thread may read at any time. A reader may see one
//! number before another that was written first: these are reports, and nothing is computed from them. What
//! an operator keeps is looked at between two of its messages, by the reader; nothing of it is kept alive by
//! a reader after the graph has gone.

use crate::batch::Message;
use crate::held::Held;
use crate::operator::Operator;
use crate::time::{BEGINNING, INFINITY, Time};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

/// How long a reader waits for an operator that works on a message.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// How often it looks again.
const RETRY: Duration = Duration::from_millis(1);

/// An operator of a graph, which its watchers may look at between two messages.
pub(crate) type SharedOperator = Arc<Mutex<Box<dyn Operator>>>;

/// The operator, for as long as nobody else looks at it. One that has panicked is not used any more.
pub(crate) fn lock(operator: &SharedOperator) -> MutexGuard<'_, Box<dyn Operator>> {
    operator.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The counters of a node.
#[derive(Debug)]
pub(crate) struct Activity {
    rows: AtomicU64,
    latest: AtomicI64,
    frontier: AtomicI64,
    /// What was kept when a reader looked last.
    held: Mutex<Held>,
}

/// What a node has done, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProgress {
    /// How many rows it has handed out.
    pub rows: u64,
    /// The time of the last of them, or [`BEGINNING`].
    pub latest: Time,
    /// No row before this time will come out of it.
    pub frontier: Time,
    /// How much it keeps. Of an operator that has been at work on one message for a tenth of a second it is
    /// what was seen last; of one whose query has ended, nothing.
    pub held: Held,
}

/// A node of a graph, as its watchers see it; or of several graphs of one construction, as that of each
/// partition.
#[derive(Clone)]
pub struct NodeActivity {
    /// What the node is.
    pub name: &'static str,
    /// The numbers of the nodes that it reads; none: it is an input of the graph.
    pub inputs: Vec<usize>,
    /// The node in each of the graphs.
    nodes: Arc<Mutex<Vec<Watched>>>,
}

/// A node of one graph.
#[derive(Clone)]
pub(crate) struct Watched {
    pub activity: Arc<Activity>,
    pub operator: Weak<Mutex<Box<dyn Operator>>>,
}

impl Default for Activity {
    fn default() -> Activity {
        Activity {
            rows: AtomicU64::new(0),
            latest: AtomicI64::new(BEGINNING),
            frontier: AtomicI64::new(BEGINNING),
            held: Mutex::default(),
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
}

impl NodeActivity {
    pub(crate) fn new(name: &'static str, inputs: Vec<usize>, node: Watched) -> NodeActivity {
        NodeActivity { name, inputs, nodes: Arc::new(Mutex::new(vec![node])) }
    }

    /// Watches the same node of another graph, too.
    pub fn join(&self, other: &NodeActivity) {
        let others = other.nodes();
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).extend(others);
    }

    fn nodes(&self) -> Vec<Watched> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the node has done so far, in all graphs together.
    pub fn progress(&self) -> NodeProgress {
        let nothing = NodeProgress { rows: 0, latest: BEGINNING, frontier: INFINITY, held: Held::default() };
        self.nodes().iter().map(Watched::progress).fold(nothing, NodeProgress::and)
    }
}

impl NodeProgress {
    /// This of one graph and that of another.
    fn and(self, other: NodeProgress) -> NodeProgress {
        NodeProgress {
            rows: self.rows + other.rows,
            latest: self.latest.max(other.latest),
            frontier: self.frontier.min(other.frontier),
            held: self.held.and(other.held),
        }
    }
}

impl Watched {
    fn progress(&self) -> NodeProgress {
        NodeProgress {
            rows: self.activity.rows.load(Ordering::Relaxed),
            latest: self.activity.latest.load(Ordering::Relaxed),
            frontier: self.activity.frontier.load(Ordering::Relaxed),
            held: self.held(),
        }
    }

    /// How much the node keeps.
    fn held(&self) -> Held {
        let Some(operator) = self.operator.upgrade() else { return Held::default() };
        let mut last = self.activity.held.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + LONGEST_WAIT;
        loop {
            match operator.try_lock() {
                Ok(operator) => *last = operator.held(),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(RETRY);
                    continue;
                }
                Err(_) => {}
            }
            return *last;
        }
    }
}
