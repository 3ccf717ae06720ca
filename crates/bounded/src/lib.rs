//! Bounded queries: SQL over a key/value store, and what a query can cost at most is proven before it runs.
//!
//! This is PIQL (Armbrust et al., *PIQL: Success-Tolerant Query Processing in the Cloud*, VLDB 2011). A query
//! is compiled to requests to an ordered key/value store. One whose number of requests has no greatest value
//! is refused, with what to change; every other costs the same with a thousand rows as with a billion.
//!
//! The modules form layers. Each uses only those above it in this list:
//!
//! 1. [`bound`]: the most that a call can cost;
//! 2. [`refusal`]: why a query has no bound, and what to write instead;
//! 3. `error`: errors, named by their remedy;
//! 4. `clock`, `random`, `contention`: time, random numbers, and how long a statement waits for others;
//! 5. `number`, `functions`: exact numbers, and SQL functions that only bounded queries have;
//! 6. [`datum`], [`keys`], `codec`: values, and their bytes with and without an order;
//! 7. [`store`]: the trait that a store has to fill, and the stores;
//! 8. `syntax`: SQL as text, from a script to the parser's tree;
//! 9. [`schema`]: tables, indexes, references, limits, and the statements that change them;
//! 10. `record`, `catalog`: a row as the store keeps it, and the schema as the store keeps it;
//! 11. [`plan`]: chains of steps, their bounds, and how they are shown;
//! 12. `expression`: the types of expressions, and how they are run;
//! 13. `compile`: from a statement to a plan with a bound, or to what is missing for one;
//! 14. `arguments`, [`cursor`]: the values of a call, and where a page ended;
//! 15. `execute`: plans run in rounds of requests;
//! 16. `mutation`: changes of rows, and one conditional commit of them;
//! 17. `views`: what has no bound, kept up to date by each write;
//! 18. `write`: statements that write, on every kind of store; indexes built, rows repaired;
//! 19. `assistant`: what would give a refused query a bound;
//! 20. [`predict`]: how long a plan takes on a store that was measured, and whether a promise holds;
//! 21. `database`: [`Database`] and [`Prepared`], what an application uses;
//! 22. [`lint`]: the compiler as a check for pull requests, over files.
//!
//! Start at [`Database`].
//!
//! ```
//! use whimbrel_bounded::{Database, MemoryStore};
//!
//! let db = Database::open(MemoryStore::default())?;
//! let columns = "owner varchar(20), at bigint, text varchar(140)";
//! db.execute(&format!("create table thoughts ({columns}, primary key (owner, at))"), &[])?;
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
