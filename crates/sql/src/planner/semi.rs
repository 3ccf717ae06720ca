//! Semi joins that planning puts in: the rows of one plan that have a partner in another.
//!
//! The partners' columns get names that no row has, so that a plan may be its own partner.

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, JoinConstraint, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use std::sync::Arc;

/// The columns that the two sides of a join have to agree in; what is computed there is left out.
pub(super) fn pairs(join: &Join) -> impl Iterator<Item = (&Column, &Column)> {
    join.on.iter().filter_map(|(left, right)| Some((left.try_as_col()?, right.try_as_col()?)))
}

/// Whether a plan may give other rows when it is asked again: it cannot be asked for partners beside its other use.
pub(super) fn is_by_chance(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|plan| Ok(plan.expressions().iter().any(Expr::is_volatile)))
}

/// These columns of a plan, with which [`semi`] looks for partners.
pub(super) fn partners(
    plan: Arc<LogicalPlan>,
    columns: impl IntoIterator<Item = Column>,
) -> Result<LogicalPlan> {
    let named = |(i, column)| Expr::Column(column).alias(name(i));
    let columns = columns.into_iter().enumerate().map(named).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, plan)?))
}

/// The rows that agree in `columns`, in their order, with one of the [`partners`].
pub(super) fn semi(
    rows: Arc<LogicalPlan>,
    columns: impl IntoIterator<Item = Column>,
    partners: LogicalPlan,
    null_equality: NullEquality,
) -> Result<LogicalPlan> {
    let pair = |(i, column)| (Expr::Column(column), Expr::Column(Column::from_name(name(i))));
    let on = columns.into_iter().enumerate().map(pair).collect();
    Ok(LogicalPlan::Join(Join::try_new(
        rows,
        Arc::new(partners),
        on,
        None,
        JoinType::LeftSemi,
        JoinConstraint::On,
        null_equality,
        false,
    )?))
}

/// The plan that the partners of a [`semi`] join are of, if they are told by one column, and that column.
pub(super) fn partner(join: &Join) -> Option<(&LogicalPlan, &Column)> {
    let (LogicalPlan::Projection(partners), JoinType::LeftSemi) = (join.right.as_ref(), join.join_type)
    else {
        return None;
    };
    match partners.expr.as_slice() {
        [Expr::Alias(alias)] if alias.name == name(0) => Some((&partners.input, alias.expr.try_as_col()?)),
        _ => None,
    }
}

fn name(i: usize) -> String {
    format!("__partner_{i}")
}
