//! Plans: chains of steps, their bounds, and how they are shown.
//!
//! 1. `chain`: the steps of a query;
//! 2. `bound`: the most that a chain costs;
//! 3. `unparse`: expressions as SQL writes them;
//! 4. `display`, `draw`: plans as text, and logical plans as trees with a mark.

mod bound;
mod chain;
mod display;
mod draw;
mod unparse;

pub use chain::{Access, Chain, Fetch, Hint, Interval, Keep, List, ParameterType, Plan, Source, Step};
pub(crate) use draw::{draw, occurrence};
pub(crate) use unparse::unparse;
