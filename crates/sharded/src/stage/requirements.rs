//! Requirements of a plan were checked when it was made; what runs is the plan without them.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::LogicalPlan;
use whimbrel_plan::{Node, node};

/// The plan with the same result that requires nothing.
pub(crate) fn without_requirements(plan: LogicalPlan) -> Result<LogicalPlan> {
    // To look is cheaper than to rebuild.
    if !plan.exists(|plan| Ok(matches!(node(plan), Some(Node::Colocated(_)))))? {
        return Ok(plan);
    }
    let rewrite = |plan: LogicalPlan| match node(&plan) {
        Some(Node::Colocated(colocated)) => Ok(Transformed::yes(colocated.input.clone().into_inner())),
        _ => Ok(Transformed::no(plan)),
    };
    plan.transform_up(rewrite).data()
}
