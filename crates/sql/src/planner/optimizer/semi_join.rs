//! Semi joins that the optimizer adds: the rows of one plan that have a partner in another, the *reducer*.
//!
//! The reducer's columns get reserved names, so that a plan may be its own reducer.

use crate::tree::any_plan;
use datafusion::common::{Column, JoinConstraint, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use std::sync::Arc;

/// The pairs of columns that a join compares; computed keys are left out.
pub(super) fn pairs(join: &Join) -> impl Iterator<Item = (&Column, &Column)> {
    join.on.iter().filter_map(|(left, right)| Some((left.try_as_col()?, right.try_as_col()?)))
}

/// Whether a plan may give other rows when it is computed again, so that it cannot be a reducer beside its
/// other use.
pub(in crate::planner) fn is_volatile_plan(plan: &LogicalPlan) -> bool {
    any_plan(plan, &mut |plan| plan.expressions().iter().any(Expr::is_volatile))
}

/// These columns of a reducer, by which [`semi_join`] finds partners.
///
/// # Errors
/// `Plan` if a column is not one of the plan.
pub(in crate::planner) fn semi_join_keys(
    plan: Arc<LogicalPlan>,
    columns: impl IntoIterator<Item = Column>,
) -> Result<LogicalPlan> {
    let named = |(i, column)| Expr::Column(column).alias(name(i));
    let columns = columns.into_iter().enumerate().map(named).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, plan)?))
}

/// The rows that agree in `columns` with one of the [`semi_join_keys`], column by column.
///
/// # Errors
/// `Plan` if a column is not one of the rows.
pub(in crate::planner) fn semi_join(
    rows: Arc<LogicalPlan>,
    columns: impl IntoIterator<Item = Column>,
    keys: LogicalPlan,
    null_equality: NullEquality,
) -> Result<LogicalPlan> {
    let pair = |(i, column)| (Expr::Column(column), Expr::Column(Column::from_name(name(i))));
    let on = columns.into_iter().enumerate().map(pair).collect();
    Ok(LogicalPlan::Join(Join::try_new(
        rows,
        Arc::new(keys),
        on,
        None,
        JoinType::LeftSemi,
        JoinConstraint::On,
        null_equality,
        false,
    )?))
}

/// The reducer of a [`semi_join`] by one column, and that column.
pub(super) fn reducer(join: &Join) -> Option<(&LogicalPlan, &Column)> {
    let (LogicalPlan::Projection(keys), JoinType::LeftSemi) = (join.right.as_ref(), join.join_type) else {
        return None;
    };
    match keys.expr.as_slice() {
        [Expr::Alias(alias)] if alias.name == name(0) => Some((&keys.input, alias.expr.try_as_col()?)),
        _ => None,
    }
}

/// The reserved name of a key of the reducer.
fn name(i: usize) -> String {
    format!("__partner_{i}")
}
