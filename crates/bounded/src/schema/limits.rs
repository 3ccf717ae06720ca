//! What rows promise about each other.

use super::index::IndexState;
use serde::{Deserialize, Serialize};

/// `cardinality limit n (columns)`: the most rows with the same values in these columns, rows with a null not
/// counted. Without columns, the most rows of the table (piql.txt §4.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardinalityLimit {
    /// The columns, in the order of the table.
    pub columns: Vec<usize>,
    /// How many rows.
    pub rows: u64,
    /// Writes enforce it at once. Plans use it when older rows have been counted.
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
