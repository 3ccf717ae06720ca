//! Rows are summed up before they are joined, where that leaves fewer to join.
//!
//! `select a.k, count(b.x) from a left join b on a.k = b.k group by a.k` makes a part of each group of the rows of `b` that
//! agree in what they are joined and grouped by, joins the parts, and puts them together (Yan and Larson 1995: eager
//! aggregation). It does so if the join keeps about all rows and each part has several: rows that a join throws away are
//! not worth a sum. Of rows that are only asked whether they are there, each is there once.

use super::join::Side;
use super::reduce::over;
use super::semi::partner;
use super::share::{both, drops};
use super::split::Split;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, JoinType, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, Projection, lit};
use std::sync::Arc;
use whimbrel_plan::estimate::Estimator;

/// How many rows a part has to have.
const ROWS: f64 = 4.0;
/// Which share of the rows a join has to keep.
const KEPT: f64 = 0.9;

/// The plan in which rows are summed up before joins that keep them. A join that is wanted elsewhere too is left as it is:
/// it is computed once.
pub(super) fn summed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut joins = Vec::new();
    plan.apply(|plan| {
        if let LogicalPlan::Join(_) = plan {
            joins.push(plan.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    plan.transform_up(|plan| match &plan {
        LogicalPlan::Aggregate(aggregate) => match in_parts(aggregate, &joins)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Ok(Transformed::no(plan)),
        },
        LogicalPlan::Join(join) => match once(join)? {
            Some(join) => Ok(Transformed::yes(LogicalPlan::Join(join))),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

/// A join that only asks whether there is a partner, of partners that are each there once. It is worth it for whole numbers,
/// which are found by their places. Those that planning put in ask few rows.
fn once(join: &Join) -> Result<Option<Join>> {
    let side = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => Side::Right,
        JoinType::RightSemi | JoinType::RightAnti => Side::Left,
        _ => return Ok(None),
    };
    let many = side.of(join);
    let asks = join.filter.is_none() && !join.null_aware && partner(join).is_none();
    let key = side.keys(join).filter(|_| asks);
    let Some([key]) = key.as_deref() else { return Ok(None) };
    let field = many.schema().index_of_column(key).map(|at| many.schema().field(at))?;
    if !field.data_type().is_integer() {
        return Ok(None);
    }
    let keys = Aggregate::try_new(Arc::clone(many), vec![Expr::Column(key.clone())], vec![])?;
    let keys = Arc::new(LogicalPlan::Aggregate(keys));
    match is_fewer(&keys, many) {
        true => side.replaced(join, keys).map(Some),
        false => Ok(None),
    }
}

/// The aggregate of a join as one of parts of the side that all of its calls are about.
fn in_parts(aggregate: &Aggregate, joins: &[LogicalPlan]) -> Result<Option<LogicalPlan>> {
    let Some(join) = joined(&aggregate.input) else { return Ok(None) };
    let grouped: Option<Vec<&Column>> = aggregate.group_expr.iter().map(Expr::try_as_col).collect();
    let Some(grouped) = grouped.filter(|grouped| !grouped.is_empty()) else { return Ok(None) };
    for side in [Side::Right, Side::Left] {
        if let Some(plan) = in_parts_of(side, aggregate, &grouped, join)? {
            return Ok(if is_wanted_again(join, joins)? { None } else { Some(plan) });
        }
    }
    Ok(None)
}

/// Whether one of these joins and another are the same but for their columns.
fn is_wanted_again(join: &Join, joins: &[LogicalPlan]) -> Result<bool> {
    let join = LogicalPlan::Join(join.clone());
    let alike = joins.iter().map(|other| both(&join, other));
    Ok(alike.collect::<Result<Vec<_>>>()?.iter().flatten().count() > 1)
}

/// The join that rows come from, if it has no conditions but that columns are equal.
fn joined(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Projection(projection) if drops(projection) => joined(&projection.input),
        LogicalPlan::Join(join) if join.filter.is_none() && keeps_pairs(join.join_type) => Some(join),
        _ => None,
    }
}

/// Whether a join gives pairs of rows.
fn keeps_pairs(kind: JoinType) -> bool {
    matches!(kind, JoinType::Inner | JoinType::Left | JoinType::Right)
}

fn in_parts_of(
    side: Side,
    aggregate: &Aggregate,
    grouped: &[&Column],
    join: &Join,
) -> Result<Option<LogicalPlan>> {
    let many = side.of(join);
    let about = aggregate.aggr_expr.iter().all(|call| side.serves(call, join));
    let key = side.keys(join).filter(|key| about && !key.is_empty());
    let Some(mut key) = key else { return Ok(None) };
    key.extend(grouped.iter().filter(|column| many.schema().has_column(column)).map(|c| (*c).clone()));
    key.sort();
    key.dedup();
    // A group of 0 and -0 is a group of one of them.
    let is_float =
        |column: &Column| many.schema().field_from_column(column).map(|f| f.data_type().is_floating());
    if key.iter().map(is_float).collect::<Result<Vec<_>>>()?.contains(&true) {
        return Ok(None);
    }
    let key: Vec<Expr> = key.into_iter().map(Expr::Column).collect();
    let own = Aggregate::try_new(Arc::clone(many), key.clone(), aggregate.aggr_expr.clone())?;
    let Some(split) = Split::of(&own)? else { return Ok(None) };
    let parts = Aggregate::try_new(Arc::clone(many), key, split.parts.clone())?;
    let parts = Arc::new(LogicalPlan::Aggregate(parts));
    if !is_worth_it(join, many, &parts) {
        return Ok(None);
    }
    let joined = side.replaced(join, parts)?;
    together(aggregate, joined, split, side.may_be_missing(join)).map(Some)
}

fn is_worth_it(join: &Join, many: &LogicalPlan, parts: &LogicalPlan) -> bool {
    let estimator = Estimator::default();
    let joined = estimator.estimate(&LogicalPlan::Join(join.clone())).rows;
    joined >= KEPT * estimator.estimate(many).rows && is_fewer(parts, many)
}

/// Whether each part has several rows.
fn is_fewer(parts: &LogicalPlan, many: &LogicalPlan) -> bool {
    let estimator = Estimator::default();
    estimator.estimate(parts).rows * ROWS <= estimator.estimate(many).rows
}

/// The groups, of parts that were joined.
fn together(aggregate: &Aggregate, joined: Join, split: Split, missing: bool) -> Result<LogicalPlan> {
    let joined = Arc::new(LogicalPlan::Join(joined));
    let groups = Aggregate::try_new(joined, aggregate.group_expr.clone(), split.together)?;
    let calls = aggregate.aggr_expr.iter().zip(split.whole);
    let calls = calls.map(|(call, whole)| if missing && is_count(call) { or_none(whole) } else { whole });
    let columns = aggregate.group_expr.iter().cloned().chain(calls).collect();
    let groups = Arc::new(LogicalPlan::Aggregate(groups));
    Ok(LogicalPlan::Projection(Projection::try_new(columns, groups)?))
}

fn is_count(call: &Expr) -> bool {
    matches!(call.clone().unalias(), Expr::AggregateFunction(call) if call.func.name() == "count")
}

/// A number of rows, 0 where there are no parts.
fn or_none(count: Expr) -> Expr {
    let name = count.schema_name().to_string();
    coalesce(vec![count.unalias(), lit(0_i64)]).alias(name)
}

impl Side {
    fn of(self, join: &Join) -> &Arc<LogicalPlan> {
        match self {
            Side::Left => &join.left,
            Side::Right => &join.right,
        }
    }

    /// The join of other rows on this side.
    fn replaced(self, join: &Join, rows: Arc<LogicalPlan>) -> Result<Join> {
        match self {
            Side::Left => over(join, rows, Arc::clone(&join.right)),
            Side::Right => over(join, Arc::clone(&join.left), rows),
        }
    }

    /// Whether rows of the other side come out of the join without one of this side.
    fn may_be_missing(self, join: &Join) -> bool {
        match self {
            Side::Left => join.join_type == JoinType::Right,
            Side::Right => join.join_type == JoinType::Left,
        }
    }

    /// Its columns that the other side's have to equal; none if something is computed of them.
    fn keys(self, join: &Join) -> Option<Vec<Column>> {
        let own = join.on.iter().map(|(left, right)| match self {
            Side::Left => left,
            Side::Right => right,
        });
        own.map(|key| key.try_as_col().cloned()).collect()
    }

    /// Whether a call is about nothing but rows of this side, and takes no notice of a row that is missing.
    fn serves(self, call: &Expr, join: &Join) -> bool {
        let own = self.of(join).schema();
        let is_own = call.column_refs().into_iter().all(|column| own.has_column(column));
        is_own && !call.is_volatile() && !(self.may_be_missing(join) && notices_nulls(call))
    }
}

/// Whether a call may be something else for one more row whose columns are all null.
fn notices_nulls(call: &Expr) -> bool {
    match call.clone().unalias() {
        Expr::AggregateFunction(call) => !call.params.args.iter().any(is_null_of_nulls),
        _ => true,
    }
}

/// Whether an expression is null wherever its columns are.
fn is_null_of_nulls(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_null_of_nulls(&cast.expr),
        Expr::Negative(of) => is_null_of_nulls(of),
        Expr::BinaryExpr(binary) if binary.op.is_numerical_operators() => {
            is_null_of_nulls(&binary.left) || is_null_of_nulls(&binary.right)
        }
        _ => false,
    }
}
