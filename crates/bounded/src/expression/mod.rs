//! Expressions: their types, the columns that they are over, and how they are run.
//!
//! 1. `session`: DataFusion's functions and settings;
//! 2. `physical`: from logical to physical expressions;
//! 3. `columns`: the columns of the rows of a chain.

mod columns;
mod physical;
mod session;

pub(crate) use columns::{Columns, POSITION, PREFIX, column_type, placeholder, typed_constant};
pub(crate) use physical::{as_double, coerced, evaluate, is_double, physical};
pub(crate) use session::session;
