//! The stores that every test of the contract runs on.

use crate::server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use whimbrel_control::{
    Condition, ControlStore, Effect, ManualClock, MemoryStore, Outcome, RedisOptions, RedisStore, Token,
    Transaction,
};

/// A new store, and how its time passes.
pub struct Place {
    pub store: Arc<dyn ControlStore>,
    clock: Option<ManualClock>,
    _server: Option<Server>,
}

impl Place {
    /// A store in memory, with a clock that stands still.
    pub fn memory() -> Place {
        let clock = ManualClock::default();
        Place { store: Arc::new(MemoryStore::new(clock.clone())), clock: Some(clock), _server: None }
    }

    /// A store in Redis.
    pub fn redis() -> Option<Place> {
        let (server, url) = redis()?;
        let store = RedisStore::open(&url, &fresh_namespace(), RedisOptions::default()).unwrap();
        Some(Place { store: Arc::new(store), clock: None, _server: server })
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        match &self.clock {
            Some(clock) => clock.advance(time),
            None => std::thread::sleep(time),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.store.remove_all();
    }
}

/// The URL of a server: one that is named, or one that runs until it is dropped.
pub fn redis() -> Option<(Option<Server>, String)> {
    if let Ok(url) = std::env::var("WHIMBREL_CONTROL_REDIS") {
        return Some((None, url));
    }
    let server = Server::start(&[])?;
    let url = server.url();
    Some((Some(server), url))
}

/// Runs a test on a store of each kind.
pub fn everywhere(test: impl Fn(&Place)) {
    test(&Place::memory());
    if let Some(place) = Place::redis() {
        test(&place);
    }
}

/// A namespace that no other test has.
pub fn fresh_namespace() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let chance = whimbrel_control::TransactionId::random().0 % 1_000_000;
    format!("test-{}-{chance}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Commits some effects without conditions, and gives their version.
pub fn apply(store: &dyn ControlStore, effects: Vec<Effect>) -> u64 {
    let transaction = effects.into_iter().fold(Transaction::new(), Transaction::then);
    version(store.commit(&transaction).unwrap())
}

/// The version of a transaction that was applied.
pub fn version(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Committed { version, .. } => version,
        Outcome::Conflict { condition } => panic!("condition {condition} does not hold"),
    }
}

pub fn put(table: &str, row: &str, value: &[u8]) -> Effect {
    Effect::Put { table: table.into(), row: row.into(), value: value.into() }
}

pub fn append(log: &str, record: &[u8]) -> Effect {
    Effect::Append { log: log.into(), record: record.into() }
}

pub fn push(queue: &str, element: &[u8]) -> Effect {
    Effect::Push { queue: queue.into(), element: element.into() }
}

pub fn pop(queue: &str) -> Effect {
    Effect::Pop { queue: queue.into() }
}

pub fn publish(topic: &str, payload: &[u8]) -> Effect {
    Effect::Publish { topic: topic.into(), payload: payload.into() }
}

pub fn grant(lease: &str, holder: &str, ttl: Duration) -> Effect {
    Effect::Grant { lease: lease.into(), holder: holder.into(), ttl }
}

pub fn held(lease: &str, token: u64) -> Condition {
    Condition::Held { lease: lease.into(), token: Token(token) }
}

pub fn length(log: &str, length: u64) -> Condition {
    Condition::Length { log: log.into(), length }
}
