//! Bounded queries: a database, its statements, their pages and refusals, as Python sees them.
//!
//! Every call lets go of the interpreter while the store is asked; all of this can be used from many threads.

mod arguments;
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

use pyo3::prelude::*;
use whimbrel_bounded::Error;

use crate::run::guarded;

/// Runs a call without the interpreter; a panic is our bug, and an error like others.
fn detached<T: Send>(
    py: Python<'_>,
    sql: &str,
    call: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    let called = py.detach(|| guarded(|| Ok(call())));
    called.map_err(Error::from).and_then(|answer| answer).map_err(|error| refusal::raise(error, sql))
}
