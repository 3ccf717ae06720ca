//! The two inputs of a join.
//!
//! Rules that hold for either input of a join are written once, over a [`Side`].

use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::{Join, LogicalPlan};
use std::sync::Arc;

/// One of the two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The left input.
    Left,
    /// The right input.
    Right,
}

impl Side {
    /// The input on this side.
    pub fn input(self, join: &Join) -> &Arc<LogicalPlan> {
        match self {
            Side::Left => &join.left,
            Side::Right => &join.right,
        }
    }

    /// The join with another input on this side.
    ///
    /// # Errors
    /// `Plan` if the input has not the columns of the join.
    pub fn with_input(self, join: &Join, rows: Arc<LogicalPlan>) -> Result<Join> {
        match self {
            Side::Left => with_inputs(join, rows, Arc::clone(&join.right)),
            Side::Right => with_inputs(join, Arc::clone(&join.left), rows),
        }
    }

    /// Whether rows of the other side come out of the join without one of this side.
    pub fn may_be_missing(self, join: &Join) -> bool {
        match self {
            Side::Left => join.join_type == JoinType::Right,
            Side::Right => join.join_type == JoinType::Left,
        }
    }

    /// The key columns of this side; `None` if a key is computed.
    pub fn keys(self, join: &Join) -> Option<Vec<Column>> {
        let own = join.on.iter().map(|(left, right)| match self {
            Side::Left => left,
            Side::Right => right,
        });
        own.map(|key| key.try_as_col().cloned()).collect()
    }
}

/// The join with other inputs.
///
/// # Errors
/// `Plan` if the inputs have not the columns of the join.
pub(crate) fn with_inputs(join: &Join, left: Arc<LogicalPlan>, right: Arc<LogicalPlan>) -> Result<Join> {
    let (on, filter) = (join.on.clone(), join.filter.clone());
    Join::try_new(
        left,
        right,
        on,
        filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )
}
