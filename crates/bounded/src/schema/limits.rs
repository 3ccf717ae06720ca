//! What rows promise about each other.

use super::index::IndexState;
use serde::{Deserialize, Serialize};

/// `cardinality limit n (columns)`: at most so many rows have the same values in these columns, nulls aside;
/// without columns, at most so many rows are in the table (piql.txt §4.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardinalityLimit {
    /// The columns, in the order of the table.
    pub columns: Vec<usize>,
    /// How many rows.
    pub rows: u64,
    /// Writes keep it from the beginning; plans rely on it once the rows from before were counted.
    pub state: IndexState,
}

/// A reference to the primary key of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    /// The columns that refer, in the order of the key they refer to.
    pub columns: Vec<usize>,
    /// The table that they refer to.
    pub table: String,
}
