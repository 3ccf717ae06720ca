//! Views for what has no bound: `create materialized view`, kept up to date by every write of its tables.
//!
//! A count over all rows has no bound, and reading one number has. So the rows of a view are kept like those
//! of a table, and a write of a row it is made of brings them up to date, in the same commit. What that costs
//! is proven like a query's cost: a view is taken only if the *delta* of every change has a bound.
//!
//! 1. `shape`, `definition`, `layout`: what a view is, and the table that holds its rows;
//! 2. `delta`: what of it depends on one row of a table, as bounded queries;
//! 3. `overlay`: the store as the statement will leave it, and what was read of it;
//! 4. `keep`, `groups`: deltas to changes of the view's rows;
//! 5. `fill`, `watermark`: the rows from before;
//! 6. `command`, `maintain`: statements about views, and the views of a schema.
//!
//! Invariant: on a store that commits as a whole a view is, at every instant, what its query would return.
//! There are no views on a store that writes key by key: nothing there could keep two rows together.

mod command;
mod definition;
mod delta;
mod fill;
mod groups;
mod keep;
mod layout;
mod maintain;
mod overlay;
mod shape;
mod watermark;

pub(crate) use command::Command;
pub(crate) use delta::Maintained;
pub(crate) use fill::clear;
pub(crate) use keep::view_changes;
pub(crate) use maintain::{check_views, fill, filled, propose, views_of};
