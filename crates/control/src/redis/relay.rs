//! Listening to topics of Redis: a thread for each subscription, with a connection of its own.
//!
//! The thread looks for the master again when its connection breaks, as long as anybody listens. What is
//! published meanwhile is lost, which messages may be.

use super::link::{Attempt, Link};
use super::pool::Pool;
use super::wire::{Messages, Wire};
use crate::error::Result;
use crate::relay::{Message, Subscription};
use crossbeam_channel::Sender;
use redis::{RedisResult, cmd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long it takes the thread to learn that nobody listens any more.
const LOOK: Duration = Duration::from_millis(100);
/// The pause before it connects again.
const PAUSE: Duration = Duration::from_millis(200);

/// What the thread of a subscription has.
struct Listener {
    pool: Arc<Pool>,
    /// What the names of all topics begin with in Redis.
    prefix: String,
    topics: Vec<String>,
    messages: Sender<Message>,
    /// Whether anybody listens.
    alive: Weak<()>,
}

/// Listens to the topics that have these names behind a prefix.
///
/// # Errors
/// `Unavailable` if there is no master before the deadline.
pub fn subscribe(pool: &Arc<Pool>, prefix: &str, topics: &[&str]) -> Result<Subscription> {
    let (messages, received) = crossbeam_channel::unbounded();
    let subscription = Subscription::new(received);
    let listener = Listener {
        pool: pool.clone(),
        prefix: prefix.to_string(),
        topics: topics.iter().map(|topic| format!("{prefix}{topic}")).collect(),
        messages,
        alive: subscription.alive(),
    };
    let mut link = pool.retry(|| listener.connect())?;
    std::thread::spawn(move || {
        while listener.is_wanted() {
            // Whatever it was, the connection is made again.
            let _broken = listener.listen(&mut link);
            match listener.reconnect() {
                Some(again) => link = again,
                None => return,
            }
        }
    });
    Ok(subscription)
}

impl Listener {
    fn is_wanted(&self) -> bool {
        self.alive.strong_count() > 0
    }

    /// A connection that messages come from.
    fn connect(&self) -> Attempt<Link> {
        let mut link = self.pool.connect()?;
        // One answer for each topic; this takes the first, and the others are no messages.
        link.run(&[cmd("SUBSCRIBE").arg(&self.topics)])?;
        Ok(link)
    }

    /// The same, until there is one; none if nobody listens any more.
    fn reconnect(&self) -> Option<Link> {
        while self.is_wanted() {
            std::thread::sleep(PAUSE);
            if let Ok(link) = self.connect() {
                return Some(link);
            }
        }
        None
    }

    /// Passes messages on until the connection breaks or nobody listens.
    fn listen(&self, link: &mut Link) -> RedisResult<()> {
        match link.wire() {
            Wire::Clear(clear) => self.pass_on(clear),
            Wire::Encrypted(connection) => self.pass_on(&mut connection.as_pubsub()),
        }
    }

    /// Passes messages on.
    fn pass_on(&self, received: &mut impl Messages) -> RedisResult<()> {
        let mut heard = Instant::now();
        while self.is_wanted() {
            received.set_timeout(LOOK)?;
            match received.message() {
                Ok(message) => {
                    heard = Instant::now();
                    let topic = message.get_channel_name();
                    let topic = topic.strip_prefix(&self.prefix).unwrap_or(topic).to_string();
                    let payload = message.get_payload_bytes().to_vec();
                    // If nobody listens the loop ends.
                    let _ = self.messages.send(Message { topic, payload });
                }
                Err(error) if error.is_timeout() => {
                    // A server that vanished says nothing, too.
                    if heard.elapsed() > self.pool.timeout() {
                        received.set_timeout(self.pool.timeout())?;
                        received.ping()?;
                        heard = Instant::now();
                    }
                }
                Err(error) => return Err(error),
            }
        }
        received.set_timeout(self.pool.timeout())
    }
}
