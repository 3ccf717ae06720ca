//! The assistant: what would give a refused query a bound (piql.txt §6.4).
//!
//! 1. `semijoin`, `view`: the query as a view and a query of that view;
//! 2. `suggestions`: everything that can be tried, compiled, and the cheapest that have a bound.

mod semijoin;
mod suggestions;
mod view;

pub(crate) use suggestions::Suggestions;
