//! Aggregates below joins, where that leaves fewer rows to join (Yan and Larson 1995: eager aggregation).
//!
//! `select a.k, count(b.x) from a left join b on a.k = b.k group by a.k` aggregates the rows of `b` by the
//! columns that they are joined and grouped by, joins these partial groups, and merges them. It does so if
//! the join keeps nearly all rows and each partial group has several: rows that a join drops are not worth
//! aggregating. The right side of a semi join keeps each key once.

use super::common_joins::{is_column_selection, unify};
use super::semi_join::reducer;
use crate::planner::side::Side;
use crate::planner::two_phase_aggregate::TwoPhaseAggregate;
use crate::tree::{transform_up, visit_plan};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, JoinType, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, Projection, lit};
use std::sync::Arc;
use whimbrel_plan::estimate::Estimator;

/// How many rows a partial group has at least, on average.
const ROWS_PER_GROUP: f64 = 4.0;
/// Which part of the rows the join keeps at least.
const KEPT: f64 = 0.9;

/// Pushes aggregates below joins. A join that occurs twice stays as it is: it is computed once.
///
/// # Errors
/// `Plan` if an aggregate cannot be built below its join.
pub(super) fn push_down_aggregates(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut joins = Vec::new();
    visit_plan(&plan, &mut |plan| {
        if let LogicalPlan::Join(_) = plan {
            joins.push(plan.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    transform_up(plan, &mut |plan| match &plan {
        LogicalPlan::Aggregate(aggregate) => match pushed_down(aggregate, &joins)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Ok(Transformed::no(plan)),
        },
        LogicalPlan::Join(join) => match distinct_keys(join)? {
            Some(join) => Ok(Transformed::yes(LogicalPlan::Join(join))),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    })
}

/// A semi or anti join whose other side has each key once. It is worth it for integers, which are looked up
/// by position. Semi joins that the optimizer added have few keys already.
fn distinct_keys(join: &Join) -> Result<Option<Join>> {
    let side = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => Side::Right,
        JoinType::RightSemi | JoinType::RightAnti => Side::Left,
        _ => return Ok(None),
    };
    let many = side.input(join);
    let is_key_only = join.filter.is_none() && !join.null_aware && reducer(join).is_none();
    let key = side.keys(join).filter(|_| is_key_only);
    let Some([key]) = key.as_deref() else { return Ok(None) };
    let field = many.schema().index_of_column(key).map(|at| many.schema().field(at))?;
    if !field.data_type().is_integer() {
        return Ok(None);
    }
    let keys = Aggregate::try_new(Arc::clone(many), vec![Expr::Column(key.clone())], vec![])?;
    let keys = Arc::new(LogicalPlan::Aggregate(keys));
    match is_fewer(&keys, many) {
        true => side.with_input(join, keys).map(Some),
        false => Ok(None),
    }
}

/// An aggregate over a join as one that merges partial groups of the side that all of its calls read.
fn pushed_down(aggregate: &Aggregate, joins: &[LogicalPlan]) -> Result<Option<LogicalPlan>> {
    let Some(join) = equi_join(&aggregate.input) else { return Ok(None) };
    let grouped: Option<Vec<&Column>> = aggregate.group_expr.iter().map(Expr::try_as_col).collect();
    let Some(grouped) = grouped.filter(|grouped| !grouped.is_empty()) else { return Ok(None) };
    for side in [Side::Right, Side::Left] {
        if let Some(plan) = pushed_down_to(side, aggregate, &grouped, join)? {
            return Ok(if occurs_twice(join, joins)? { None } else { Some(plan) });
        }
    }
    Ok(None)
}

/// Whether two of these joins are the same as this one but for their columns.
fn occurs_twice(join: &Join, joins: &[LogicalPlan]) -> Result<bool> {
    let join = LogicalPlan::Join(join.clone());
    let alike = joins.iter().map(|other| unify(&join, other));
    Ok(alike.collect::<Result<Vec<_>>>()?.iter().flatten().count() > 1)
}

/// The join that rows come from, if it compares columns by `=` only.
fn equi_join(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Projection(projection) if is_column_selection(projection) => {
            equi_join(&projection.input)
        }
        LogicalPlan::Join(join) if join.filter.is_none() && gives_pairs(join.join_type) => Some(join),
        _ => None,
    }
}

/// Whether a join gives pairs of rows.
fn gives_pairs(kind: JoinType) -> bool {
    matches!(kind, JoinType::Inner | JoinType::Left | JoinType::Right)
}

/// The same for one side; `None` if a call reads the other side or it is not worth it.
fn pushed_down_to(
    side: Side,
    aggregate: &Aggregate,
    grouped: &[&Column],
    join: &Join,
) -> Result<Option<LogicalPlan>> {
    let many = side.input(join);
    let reads_side_only = aggregate.aggr_expr.iter().all(|call| reads_only(side, call, join));
    let key = side.keys(join).filter(|key| reads_side_only && !key.is_empty());
    let Some(mut key) = key else { return Ok(None) };
    key.extend(grouped.iter().filter(|column| many.schema().has_column(column)).map(|c| (*c).clone()));
    key.sort();
    key.dedup();
    // A group of 0 and -0 has one of them as its key, which the join would compare.
    let is_float =
        |column: &Column| many.schema().field_from_column(column).map(|f| f.data_type().is_floating());
    if key.iter().map(is_float).collect::<Result<Vec<_>>>()?.contains(&true) {
        return Ok(None);
    }
    let key: Vec<Expr> = key.into_iter().map(Expr::Column).collect();
    let own = Aggregate::try_new(Arc::clone(many), key.clone(), aggregate.aggr_expr.clone())?;
    let Some(split) = TwoPhaseAggregate::of(&own)? else { return Ok(None) };
    let partial = Aggregate::try_new(Arc::clone(many), key, split.partial.clone())?;
    let partial = Arc::new(LogicalPlan::Aggregate(partial));
    if !is_worth_it(join, many, &partial) {
        return Ok(None);
    }
    let joined = side.with_input(join, partial)?;
    merged(aggregate, joined, split, side.may_be_missing(join)).map(Some)
}

/// Whether the join keeps nearly all rows, and partial groups are fewer.
fn is_worth_it(join: &Join, many: &LogicalPlan, partial: &LogicalPlan) -> bool {
    let estimator = Estimator::default();
    let joined = estimator.estimate(&LogicalPlan::Join(join.clone())).rows;
    joined >= KEPT * estimator.estimate(many).rows && is_fewer(partial, many)
}

/// Whether each partial group has several rows.
fn is_fewer(partial: &LogicalPlan, many: &LogicalPlan) -> bool {
    let estimator = Estimator::default();
    estimator.estimate(partial).rows * ROWS_PER_GROUP <= estimator.estimate(many).rows
}

/// The groups, merged from joined partial groups.
fn merged(
    aggregate: &Aggregate,
    joined: Join,
    split: TwoPhaseAggregate,
    missing: bool,
) -> Result<LogicalPlan> {
    let joined = Arc::new(LogicalPlan::Join(joined));
    let groups = Aggregate::try_new(joined, aggregate.group_expr.clone(), split.merge)?;
    let calls = aggregate.aggr_expr.iter().zip(split.result);
    let calls = calls.map(|(call, result)| if missing && is_count(call) { or_zero(result) } else { result });
    let columns = aggregate.group_expr.iter().cloned().chain(calls).collect();
    let groups = Arc::new(LogicalPlan::Aggregate(groups));
    Ok(LogicalPlan::Projection(Projection::try_new(columns, groups)?))
}

/// Whether a call is a count.
fn is_count(call: &Expr) -> bool {
    matches!(call.clone().unalias(), Expr::AggregateFunction(call) if call.func.name() == "count")
}

/// A count that is 0 where there is no partial group.
fn or_zero(count: Expr) -> Expr {
    let name = count.schema_name().to_string();
    coalesce(vec![count.unalias(), lit(0_i64)]).alias(name)
}

/// Whether one more row whose columns are all null may change a call.
fn counts_nulls(call: &Expr) -> bool {
    match call.clone().unalias() {
        Expr::AggregateFunction(call) => !call.params.args.iter().any(propagates_nulls),
        _ => true,
    }
}

/// Whether an expression is null where its columns are.
fn propagates_nulls(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(cast) => propagates_nulls(&cast.expr),
        Expr::Negative(of) => propagates_nulls(of),
        Expr::BinaryExpr(binary) if binary.op.is_numerical_operators() => {
            propagates_nulls(&binary.left) || propagates_nulls(&binary.right)
        }
        _ => false,
    }
}

/// Whether a call reads only columns of one side, and ignores a row that is missing there.
fn reads_only(side: Side, call: &Expr, join: &Join) -> bool {
    let own = side.input(join).schema();
    let is_own = call.column_refs().into_iter().all(|column| own.has_column(column));
    is_own && !call.is_volatile() && !(side.may_be_missing(join) && counts_nulls(call))
}
