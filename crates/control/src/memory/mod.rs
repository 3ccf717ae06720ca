//! A store within one process.
//!
//! Invariant: it does what a store of Redis does, outcome for outcome; the tests run both against one model.
//! Its clock is handed in, it starts no threads, and nothing in it depends on chance: a simulation that
//! drives it step by step goes the same way each time.

mod state;

use crate::clock::{Clock, SystemClock};
use crate::error::Result;
use crate::name::{check_name, check_topics};
use crate::read::{Found, Read};
use crate::relay::{Message, Subscription};
use crate::store::ControlStore;
use crate::transaction::{Outcome, Transaction};
use crossbeam_channel::Sender;
use state::State;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A control store in the memory of this process; clones are the same store.
///
/// ```
/// use whimbrel_control::{ControlStore, Effect, Found, MemoryStore, Read, Transaction};
///
/// let store = MemoryStore::default();
/// let there = store.clone();
/// let push = Transaction::new().then(Effect::Push { queue: "tasks".into(), element: vec![1] });
/// assert!(store.commit(&push)?.is_committed());
/// assert_eq!(there.read(&Read::Waiting { queue: "tasks".into() })?, Found::Waiting(1));
/// # Ok::<(), whimbrel_control::Error>(())
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Box<dyn Clock>,
    state: Mutex<State>,
    subscribers: Mutex<Vec<Subscriber>>,
    pushed: Condvar,
}

struct Subscriber {
    topics: Vec<String>,
    messages: Sender<Message>,
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new(SystemClock::default())
    }
}

impl MemoryStore {
    /// An empty store with this clock.
    pub fn new(clock: impl Clock + 'static) -> MemoryStore {
        let shared = Shared {
            clock: Box::new(clock),
            state: Mutex::default(),
            subscribers: Mutex::default(),
            pushed: Condvar::new(),
        };
        MemoryStore { shared: Arc::new(shared) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribers(&self) -> MutexGuard<'_, Vec<Subscriber>> {
        self.shared.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a message to who listens; who does not any more is forgotten.
    fn publish(&self, message: &Message) {
        self.subscribers().retain(|subscriber| {
            !subscriber.topics.contains(&message.topic) || subscriber.messages.send(message.clone()).is_ok()
        });
    }
}

impl ControlStore for MemoryStore {
    fn commit_all(&self, transactions: &[Transaction]) -> Result<Vec<Outcome>> {
        transactions.iter().try_for_each(Transaction::check)?;
        let mut messages = Vec::new();
        let mut state = self.state();
        let now = self.shared.clock.now();
        let outcomes =
            transactions.iter().map(|transaction| state.commit(transaction, now, &mut messages)).collect();
        // Still under the lock, so that messages come in the order of the transactions.
        messages.iter().for_each(|message| self.publish(message));
        drop(state);
        self.shared.pushed.notify_all();
        Ok(outcomes)
    }

    fn read_all(&self, reads: &[Read]) -> Result<Vec<Found>> {
        reads.iter().try_for_each(Read::check)?;
        let mut state = self.state();
        let now = self.shared.clock.now();
        Ok(reads.iter().map(|read| state.read(read, now)).collect())
    }

    fn wait_for_element(&self, queue: &str, at_most: Duration) -> Result<()> {
        check_name(queue)?;
        let empty = |state: &mut State| state.waiting(queue) == 0;
        let waited = self.shared.pushed.wait_timeout_while(self.state(), at_most, empty);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    fn subscribe(&self, topics: &[&str]) -> Result<Subscription> {
        check_topics(topics)?;
        let (messages, received) = crossbeam_channel::unbounded();
        let topics = topics.iter().map(ToString::to_string).collect();
        self.subscribers().push(Subscriber { topics, messages });
        Ok(Subscription::new(received))
    }

    fn remove_all(&self) -> Result<()> {
        self.state().remove_all();
        Ok(())
    }

    fn describe(&self) -> String {
        "the memory of this process".to_string()
    }
}
