//! Less work, whatever the number of shards: the rules, in order.

mod common_joins;
mod early_arithmetic;
mod join_order;
mod push_down_aggregates;
pub(super) mod semi_join;
mod semi_join_prefilter;
mod semi_join_reduction;
mod semi_join_reuse;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Optimizer, OptimizerContext};
use std::sync::Arc;
use whimbrel_plan::optimize_projections;

/// A rule: the same answer by another plan.
type Rule = fn(LogicalPlan) -> Result<LogicalPlan>;

/// The rules that change which rows are read, joined and aggregated.
const RULES: [Rule; 6] = [
    join_order::reorder_joins,
    semi_join_reduction::reduce_aggregates,
    semi_join_reuse::reuse_semi_joins,
    semi_join_prefilter::add_prefilters,
    push_down_aggregates::push_down_aggregates,
    early_arithmetic::compute_early,
];

/// Applies the rules, drops columns that only the old plan needed, and makes common joins equal.
///
/// # Errors
/// What DataFusion refuses of a plan that a rule builds.
pub(super) fn optimize(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = RULES.iter().try_fold(plan, |plan, rule| rule(plan))?;
    let projections = Optimizer::with_rules(vec![optimize_projections()]);
    let context = OptimizerContext::new_with_config_options(Arc::clone(state.config_options()));
    common_joins::share_common_joins(projections.optimize(plan, &context, |_, _| {})?)
}
