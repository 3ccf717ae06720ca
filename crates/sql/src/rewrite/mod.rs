//! From DataFusion's plan of a query to one that DataFusion's optimizer and the runtimes have steps for: the
//! rules, in order.

mod cast_semantics;
mod decorrelate;
mod dependent_join;
mod expressions;
mod grouping_sets;
mod join_condition_subqueries;
mod lateral_unnest;
mod limit_subqueries;
mod membership_subqueries;
mod orders;
mod scalar_subquery;
mod value_coercion;

pub(crate) use cast_semantics::CastSemantics;

use crate::columns;
use crate::stream::{emit, interval_join, semantics, windows};
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use whimbrel_plan::{flat_conditions, without_rules};

/// A rule: the same answer by another plan.
type Rule = fn(LogicalPlan) -> Result<LogicalPlan>;

/// Before DataFusion's optimizer: types, and subqueries that it has no join for.
const BEFORE_OPTIMIZER: [Rule; 10] = [
    // Orders that come again, or are of no column: once, and as columns.
    orders::rewrite,
    // Expressions in grouping sets: as columns.
    grouping_sets::rewrite,
    // `limit (select …)`: as a condition on the numbers of the rows.
    limit_subqueries::rewrite,
    // Floats beside decimals are floats, and dates beside timestamps such timestamps.
    value_coercion::rewrite,
    // `from t, unnest(t.list)`: unnested in place.
    lateral_unnest::rewrite,
    // Subqueries in the condition of a join: above or below it.
    join_condition_subqueries::rewrite,
    // Subqueries that stand for a value: one row each, and only where there is a join for them.
    scalar_subquery::rewrite,
    // `in (select …)` and `exists` outside of a filter: as counts.
    membership_subqueries::rewrite,
    // Correlated subqueries and `lateral`: as joins.
    decorrelate::rewrite,
    columns::with_unique_names,
];

/// After DataFusion's optimizer: streams with time, in terms of lifetimes.
const AFTER_OPTIMIZER: [Rule; 5] = [
    flat_conditions,
    emit::without_lateness_of_tables,
    // Queries that mean something else over a stream than over a table are refused.
    semantics::check,
    // The columns of windows: computed of their results.
    windows::lift_window_columns,
    // Joins over times: as joins of lifetimes.
    interval_join::lower_interval_joins,
];

/// Applies the rules, and DataFusion's optimizer between them.
///
/// # Errors
/// `Plan` and `NotImplemented` if there is no plan for the query; what DataFusion's optimizer refuses.
pub(crate) fn rewrite(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = BEFORE_OPTIMIZER.iter().try_fold(plan, |plan, rule| rule(plan))?;
    let plan = state.optimize(&plan).map_err(without_rules)?;
    AFTER_OPTIMIZER.iter().try_fold(plan, |plan, rule| rule(plan))
}
