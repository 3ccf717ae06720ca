//! Bounded queries: SQL over a key/value store, and what a query can cost at most is proven before it runs.
//!
//! This is PIQL (Armbrust et al., *PIQL: Success-Tolerant Query Processing in the Cloud*, VLDB 2011). A query is
//! compiled to requests to an ordered key/value store. One whose number of requests has no greatest value is refused,
//! with what to change; every other costs the same with a thousand rows as with a billion.
//!
//! Layers, bottom up:
//! 1. [`datum`], [`keys`], [`rows`]: values as bytes;
//! 2. [`store`]: the trait that a store has to fill: the embedded one, PostgreSQL, Redis Cluster, one in memory, one
//!    that fails on command;
//! 3. [`schema`]: tables, indexes, limits, `create table`;
//! 4. `text`, `dialect`, `unsupported`, `compile`, [`plan`], [`bound`], [`refusal`]: from a statement to a plan with a
//!    bound, or to a refusal;
//! 5. `execute`, [`cursor`], `parameters`: plans run in rounds; pages;
//! 6. `write`, `contention`: rows in and out, indexes kept, limits held, repair; what is done while others write the
//!    same;
//! 7. `views`: what has no bound kept up to date by each write;
//! 8. [`predict`]: how long a plan takes on a store that was measured, and whether a promise holds;
//! 9. [`Database`], [`Prepared`]: what an application uses;
//! 10. [`lint`]: the compiler as a check for pull requests, over files.
//!
//! Start at [`Database`].
//!
//! ```
//! use whimbrel_bounded::{Database, MemoryStore};
//!
//! let db = Database::open(MemoryStore::default())?;
//! db.execute("create table thoughts (owner varchar(20), at bigint, text varchar(140), primary key (owner, at))", &[])?;
//! let post = db.prepare("insert into thoughts values (?, ?, ?)")?;
//! post.call(&["ann".into(), 1_i64.into(), "first".into()])?;
//! post.call(&["ann".into(), 2_i64.into(), "second".into()])?;
//!
//! let recent = db.prepare("select text from thoughts where owner = ? order by at desc limit 10")?;
//! assert_eq!(recent.plan().bound.requests, 1);
//! assert_eq!(recent.call(&["ann".into()])?.batch.num_rows(), 2);
//!
//! let refused = db.prepare("select text from thoughts where text = ?").unwrap_err();
//! assert!(refused.to_string().contains("fix 1"));
//! # Ok::<(), whimbrel_bounded::Error>(())
//! ```

mod arguments;
mod assistant;
pub mod bound;
mod catalog;
mod clock;
mod codec;
mod compile;
mod contention;
pub mod cursor;
mod database;
pub mod datum;
mod error;
mod execute;
mod expression;
mod functions;
pub mod keys;
pub mod lint;
mod mutation;
mod number;
pub mod plan;
pub mod predict;
mod random;
mod record;
pub mod refusal;
pub mod schema;
pub mod store;
mod syntax;
mod views;
mod write;

pub use arguments::Argument;
pub use bound::{Bound, Bytes, WriteBound};
pub use clock::Clock;
pub use cursor::Cursor;
pub use database::{Compiled, Database, Options, Prepared};
pub use error::{Error, Result};
pub use execute::{Executor, Page};
pub use plan::Plan;
pub use refusal::{Fix, Refusal};
pub use store::{EmbeddedStore, MemoryStore, Observed, PostgresStore, RedisStore, Store};
pub use write::Repaired;
