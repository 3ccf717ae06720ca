//! What the answer of a plan relies on is said in it: rows that belong together lie together. Where somebody changes a
//! printed plan so that they do not, it is refused.

use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use whimbrel_plan::Colocated;
use whimbrel_plan::nodes::extension;

/// Rows that agree in these columns, or all rows, are in one shard.
pub(super) fn equal(plan: LogicalPlan, key: &[Column]) -> Result<LogicalPlan> {
    let key = key.iter().cloned().map(Expr::Column).collect();
    Ok(extension(Colocated::rows(plan, key)?))
}

/// Rows that a join pairs are in one shard.
pub(super) fn matching(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Join(join) => Ok(extension(Colocated::matches(join)?)),
        other => Ok(other),
    }
}
