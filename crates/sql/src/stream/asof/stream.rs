//! `asof join` over streams of events: the last row of each key is alive until the next one, and joined with
//! the rows that come meanwhile. State is one row a key.

use super::{Condition, FOUND, MATCH, packed, place};
use crate::stream::interval_join::time_column;
use datafusion::common::{JoinConstraint, JoinType, NullEquality, Result, plan_err};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::functions_aggregate::first_last::last_value_udaf;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Operator};
use std::sync::Arc;
use whimbrel_plan::column;
use whimbrel_plan::nodes::{AlterLifetime, extension};
use whimbrel_temporal::{DurationRule, StartRule};

/// The name of a key column of the right side.
fn key(i: usize) -> String {
    format!("__asof_key{i}")
}

/// The join of two streams.
///
/// # Errors
/// `Plan` if the condition does not compare the time columns.
pub(super) fn plan(left: LogicalPlan, right: LogicalPlan, condition: &Condition) -> Result<LogicalPlan> {
    let (time, op, other) = &condition.time;
    if !is_time_column(&left, time) || !is_time_column(&right, other) {
        return plan_err!(
            "asof join of streams compares the columns that the streams have their time from, and {time} {op} {other} \
             does not"
        );
    }
    let start = match op {
        Operator::GtEq => StartRule::Keep,
        Operator::Gt => StartRule::Shift(1),
        _ => return plan_err!("asof join of streams looks back: a.time >= b.time, or a.time > b.time"),
    };
    let last = last_rows(&right, start, condition)?;
    let on = condition.on.iter().enumerate().map(|(i, (l, _))| (l.clone(), column(key(i)))).collect();
    let kind = if condition.outer { JoinType::Left } else { JoinType::Inner };
    let left_columns: Vec<Expr> = left.schema().columns().into_iter().map(Expr::Column).collect();
    let (constraint, nulls) = (JoinConstraint::On, NullEquality::NullEqualsNothing);
    let joined = Join::try_new(Arc::new(left), Arc::new(last), on, None, kind, constraint, nulls, false)?;
    let right_columns =
        right.schema().iter().enumerate().filter(|(_, (_, f))| !condition.merged.contains(f.name()));
    let right_columns = right_columns.map(|(i, (qualifier, field))| {
        get_field(column(FOUND), place(i)).alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = left_columns.into_iter().chain(right_columns).collect();
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(columns)?.build()
}

/// Whether an expression is the time column of a plan.
fn is_time_column(plan: &LogicalPlan, expr: &Expr) -> bool {
    let place = expr.try_as_col().and_then(|column| plan.schema().maybe_index_of_column(column));
    place.is_some() && place == time_column(plan)
}

/// The last row of each key so far, at every instant, packed into one column.
fn last_rows(right: &LogicalPlan, start: StartRule<Expr>, condition: &Condition) -> Result<LogicalPlan> {
    let label = "alive until the next".to_string();
    let lasting = AlterLifetime::try_new(right.clone(), start, DurationRule::Infinite, label)?;
    let keys = condition.on.iter().enumerate().map(|(i, (_, r))| r.clone().alias(key(i)));
    let rows: Vec<Expr> = keys.chain([packed(right.schema())?.alias(MATCH)]).collect();
    let own: Vec<Expr> = (0..condition.on.len()).map(|i| column(key(i))).collect();
    let last = last_value_udaf().call(vec![column(MATCH)]).alias(FOUND);
    LogicalPlanBuilder::from(extension(lasting)).project(rows)?.aggregate(own, [last])?.build()
}
