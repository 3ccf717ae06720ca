//! The control store: where the clients and workers of a cluster meet.
//!
//! There is no master. Who is there, what has to be done, what was done and who may do it is kept in one
//! store that all can reach (quill.txt §5.1), and changed there by transactions, so that a task's lineage,
//! its removal from the tasks, and the end of its predecessor's lease are one step (quokka.txt Algorithm 1).
//! A store has
//! - *tables*: rows with versions;
//! - *logs*: records at positions; a record can be appended at the end that one has seen, and nowhere else;
//! - *queues*: each element is taken once;
//! - *leases* with tokens, lapsing by the time of the store;
//! - a *relay*: messages to whoever listens, as hints.
//!
//! Layers, lowest first; each module uses only modules above it in this list:
//! 1. `error`, `name`, `clock`, `relay`: errors by their remedies, names, time, messages;
//! 2. `transaction`, `read`: what can be done to a store, and found in it;
//! 3. `store`: the interface of a store;
//! 4. `memory`, `redis`: the stores;
//! 5. `codec`, `table`, `log`, `queue`, `lease`: typed use of any store.
//!
//! Start at [`ControlStore`] and [`Transaction`].
//!
//! Not here: what tables, logs and leases a cluster has, and what their rows mean.

mod clock;
mod codec;
mod error;
mod lease;
mod log;
mod memory;
mod name;
mod queue;
mod read;
mod redis;
mod relay;
mod store;
mod table;
mod transaction;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, Result};
pub use lease::Lease;
pub use log::Log;
pub use memory::MemoryStore;
pub use queue::Queue;
pub use read::{Found, Holding, Read, Records, Row};
pub use redis::{Disk, Durability, RedisOptions, RedisStore};
pub use relay::{Message, Subscription};
pub use store::ControlStore;
pub use table::{Table, Versioned};
pub use transaction::{Condition, Effect, Outcome, REMEMBERED, Token, Transaction, TransactionId};
