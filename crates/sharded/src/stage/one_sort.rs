//! Sorts of all rows in one shard, in place of those of a range of rows in each.
//!
//! The operators of a query share its memory. A sort that has written to disk needs some to merge what it has
//! written, so under a limit one sort ends where several might not.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use whimbrel_plan::{Node, node};

/// The plan with all of its sorts in one shard.
///
/// # Errors
/// `Plan` if the plan cannot be rebuilt.
pub(crate) fn sort_in_one_shard(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewrite = |plan: LogicalPlan| {
        let sort = match node(&plan) {
            Some(Node::Exchange(exchange)) => exchange.as_one_sort()?,
            _ => None,
        };
        Ok(sort.map_or_else(|| Transformed::no(plan), Transformed::yes))
    };
    plan.transform_down(rewrite).data()
}
