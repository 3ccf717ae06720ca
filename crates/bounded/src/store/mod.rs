//! The key/value store, behind one small trait.
//!
//! A store maps keys to values, bytes to bytes, ordered by key. Two calls are all: [`read`](Store::read)
//! carries all requests of one sequential round of a query, [`commit`](Store::commit) one change and what has
//! to be true for it. Calls block. An embedded store answers in microseconds, and a task switch for each
//! would cost more than the answer; a networked one gets a whole round at once, and answers it by one
//! statement for each kind of request (PostgreSQL) or by one pipeline a server (Redis Cluster). Either way a
//! round costs one waiting time, whatever the number of its requests.
//!
//! What a store can do it says by [`Capabilities`], and the planner and the writes go by that.

mod closable;
mod distant;
mod embedded;
mod faults;
mod interface;
mod memory;
mod metered;
mod open;
mod pool;
mod postgres;
mod redis;
mod url;

pub(crate) use closable::Closable;
pub use distant::{Distant, Latency};
pub use embedded::EmbeddedStore;
pub use faults::{Faults, Observed, Operations};
pub use interface::{Atomicity, Capabilities, Condition, Entries, Found, Order, Outcome, Read, Store, Write};
pub use memory::MemoryStore;
pub(crate) use metered::Metered;
pub(crate) use open::open;
pub use postgres::PostgresStore;
pub use redis::RedisStore;
