//! Databases: what an application uses.
//!
//! 1. `options`, `compiled`: how a database is used, and a statement that was compiled;
//! 2. `engine`: the store and the schema that all clones of a database share, and statements compiled over
//!    them;
//! 3. `change`, `views`: changes of the schema;
//! 4. `prepared`: a statement that is ready to be called;
//! 5. `explain`, `latencies`, `charts`: plans shown, latencies measured and predicted;
//! 6. `handle`: the database itself.

mod change;
mod charts;
mod compiled;
mod engine;
mod explain;
mod handle;
mod latencies;
mod options;
mod prepared;
mod views;

pub use compiled::Compiled;
pub use handle::Database;
pub use options::Options;
pub use prepared::Prepared;
