//! The relay: messages to whoever listens to a topic at that moment.
//!
//! A message is a hint. It reaches a subscriber at most once, and not at all if the subscriber is cut off for
//! a while. Whoever subscribes has to look into the store from time to time as well; a message only says that
//! looking now is worth it.

use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where.
    pub topic: String,
    /// What.
    pub payload: Vec<u8>,
}

/// Listens to some topics until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    messages: Receiver<Message>,
    alive: Arc<()>,
}

impl Subscription {
    /// A subscription to what comes out of a channel.
    pub(crate) fn new(messages: Receiver<Message>) -> Subscription {
        Subscription { messages, alive: Arc::new(()) }
    }

    /// Has no value any more once the subscription is dropped.
    pub(crate) fn alive(&self) -> Weak<()> {
        Arc::downgrade(&self.alive)
    }

    /// The next message; none if there is none for so long. With no time at all it only looks.
    pub fn next(&self, at_most: Duration) -> Option<Message> {
        match self.messages.recv_timeout(at_most) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            // Nothing will come any more; whoever polls between messages should not do so without a pause.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(at_most);
                None
            }
        }
    }

    /// The channel of the messages, to wait for them and for other things at once.
    pub fn messages(&self) -> &Receiver<Message> {
        &self.messages
    }
}
