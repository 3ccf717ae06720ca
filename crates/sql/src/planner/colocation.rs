//! What the answer of a plan relies on is part of the plan: which rows are in the same shard. A printed plan
//! that was changed so that they are not is refused.
//!
//! The check is part of the plan that runs: an aggregate by `k` over shards that are not partitioned by `k`
//! would give several rows for one group, and no error.

use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use whimbrel_plan::Colocated;
use whimbrel_plan::nodes::extension;

/// Asserts that rows that agree in these columns are in one shard; all rows, if there are no columns.
///
/// # Errors
/// `Plan` if a column is not one of the plan.
pub(super) fn assert_colocated(plan: LogicalPlan, key: &[Column]) -> Result<LogicalPlan> {
    let key = key.iter().cloned().map(Expr::Column).collect();
    Ok(extension(Colocated::rows(plan, key)?))
}

/// Asserts that rows that a join pairs are in one shard.
///
/// # Errors
/// `Plan` if a key of the join is not one of its inputs.
pub(super) fn assert_matches_colocated(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Join(join) => Ok(extension(Colocated::matches(join)?)),
        other => Ok(other),
    }
}
