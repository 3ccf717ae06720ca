//! Removes requirements, which were checked when the plan was built.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use whimbrel_plan::{Node, node};

/// The plan without `colocated` nodes. The result is the same.
///
/// # Errors
/// `Plan` if the plan cannot be rebuilt.
pub(crate) fn without_requirements(plan: LogicalPlan) -> Result<LogicalPlan> {
    // A search is cheaper than a rewrite.
    if !plan.exists(|plan| Ok(matches!(node(plan), Some(Node::Colocated(_)))))? {
        return Ok(plan);
    }
    let rewrite = |plan: LogicalPlan| match node(&plan) {
        Some(Node::Colocated(colocated)) => Ok(Transformed::yes(colocated.input.clone().into_inner())),
        _ => Ok(Transformed::no(plan)),
    };
    plan.transform_up(rewrite).data()
}
