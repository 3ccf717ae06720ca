//! Materialized views, as the schema describes them.

use super::index::IndexState;
use super::limits::ForeignKey;
use serde::{Deserialize, Serialize};

/// What a view is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The query, as it was written.
    pub sql: String,
    /// The tables that it reads.
    pub tables: Vec<String>,
    /// What its rows refer to, for the rows that they are made of do. Nothing has to check it.
    pub references: Vec<ForeignKey>,
    /// Whether all rows from before it was made are in it. Writes keep it from the beginning.
    pub state: IndexState,
}
