//! Which DataFusion plans can be replayed: those whose rows, their order and the bounds of batches follow
//! from what their leaves handed out.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// Operators whose output depends on which of their inputs, or of their tasks, is faster.
const RACING: [&str; 5] =
    ["RepartitionExec", "CoalescePartitionsExec", "UnionExec", "InterleaveExec", "SymmetricHashJoinExec"];

/// The operator that reads the partitions below it one after the other.
const SEQUENTIAL: &str = "SequentialUnionExec";

/// Checks that a plan can be replayed.
///
/// # Errors
/// `Plan` with the first operator or function that depends on more than the rows it is given.
pub(super) fn check_replayable(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    check(plan, false)
}

/// Checks a plan; `in_order`: its partitions are read one after the other.
fn check(plan: &Arc<dyn ExecutionPlan>, in_order: bool) -> Result<()> {
    let (name, partitions) = (plan.name(), plan.output_partitioning().partition_count());
    if partitions != 1 && !in_order {
        return plan_err!("{name} has {partitions} partitions, so its order cannot be replayed");
    }
    let is_union = name == "UnionExec" && in_order;
    if RACING.contains(&name) && !is_union {
        return plan_err!("{name} takes its inputs as they come, so its order cannot be replayed");
    }
    plan.apply_expressions(&mut |expr| match is_volatile(expr) {
        true => plan_err!("{expr} has another value each time, so it cannot be replayed"),
        false => Ok(TreeNodeRecursion::Continue),
    })?;
    // The branches of a union have one partition each.
    let in_order = name == SEQUENTIAL || (in_order && !is_union);
    plan.children().into_iter().try_for_each(|input| check(input, in_order))
}
