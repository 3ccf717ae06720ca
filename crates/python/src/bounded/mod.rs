//! Bounded queries: a database, its statements, their pages and refusals, as Python sees them.
//!
//! Every call releases the interpreter while the store is asked. All of this can be used from many threads.
//!
//! Layers, lowest first: `refusal`, errors, bounds and fixes; `call`, calls without the interpreter;
//! `arguments`, values of parameters; `page`, the rows of a call; `prediction`, latencies; `query`, a
//! prepared statement; `database`.

mod arguments;
mod call;
mod database;
mod page;
mod prediction;
mod query;
mod refusal;

pub use database::BoundedDatabase;
pub use page::{BoundedPage, Operations};
pub use prediction::{LatencyChart, Prediction};
pub use query::BoundedQuery;
pub use refusal::{Bound, Fix};
