//! Relations that DataFusion's planner does not have, and that need the columns of their tables.

mod column_aliases;
mod pivot;
mod set_operations;

pub(crate) use column_aliases::ColumnAliases;
pub(crate) use pivot::Pivot;
pub(crate) use set_operations::SetOperations;
