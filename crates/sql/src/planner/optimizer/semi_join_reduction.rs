//! Groups that a join drops are not aggregated: semi joins below aggregates (magic sets, Mumick et al. 1990).
//!
//! `few join (select k, sum(x) from many group by k)` on `k` becomes
//! `few join (select k, sum(x) from many where k in (select k from few) group by k)`. `few` is computed once,
//! for both of its uses are equal.

use super::semi_join::{is_volatile_plan, pairs, semi_join, semi_join_keys};
use crate::planner::side::with_inputs;
use crate::tree::transform_up;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Aggregate, Join, LogicalPlan};
use std::sync::Arc;
use whimbrel_plan::estimate::Estimator;

/// The other side has so many times more groups, at least.
const TIMES: f64 = 8.0;

/// Adds semi joins below aggregates that are joined with few rows.
///
/// # Errors
/// `Plan` if a semi join cannot be built.
pub(super) fn reduce_aggregates(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up(plan, &mut |plan| match &plan {
        LogicalPlan::Join(join) => match reduce_side(join)? {
            Some(join) => Ok(Transformed::yes(LogicalPlan::Join(join))),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    })
}

/// Whether the left and the right side may drop rows without a partner.
fn may_drop_rows(kind: JoinType) -> [bool; 2] {
    match kind {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => [true, true],
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => [false, true],
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => [true, false],
        JoinType::Full => [false, false],
    }
}

/// The join with one side reduced; `None` if neither can be.
fn reduce_side(join: &Join) -> Result<Option<Join>> {
    if join.null_aware || join.null_equality != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let [left, right] = may_drop_rows(join.join_type);
    if right && let Some(side) = with_fewer_groups(&join.right, &join.left, |(l, r)| (r, l), join)? {
        return Ok(Some(with_inputs(join, Arc::clone(&join.left), side)?));
    }
    if left && let Some(side) = with_fewer_groups(&join.left, &join.right, |(l, r)| (l, r), join)? {
        return Ok(Some(with_inputs(join, side, Arc::clone(&join.right))?));
    }
    Ok(None)
}

/// The side with only the groups that have a partner in the other, which has few rows.
fn with_fewer_groups<'a>(
    side: &Arc<LogicalPlan>,
    few: &LogicalPlan,
    sides: impl Fn((&'a Column, &'a Column)) -> (&'a Column, &'a Column),
    join: &'a Join,
) -> Result<Option<Arc<LogicalPlan>>> {
    let estimator = Estimator::default();
    let rows = |plan| estimator.estimate(plan).rows;
    let at_most = rows(side) / TIMES;
    let pairs: Vec<(&Column, &Column)> = pairs(join).map(sides).collect();
    if pairs.is_empty() || rows(few) > at_most || is_volatile_plan(few) {
        return Ok(None);
    }
    Ok(reduce_below(side, &pairs, &Reducer { plan: few, at_most })?.map(Arc::new))
}

/// The other side of the join, and up to how many rows are few.
struct Reducer<'a> {
    /// The other side.
    plan: &'a LogicalPlan,
    /// How many rows count as few.
    at_most: f64,
}

impl<'a> Reducer<'a> {
    /// The smallest subplan that has all values of these columns, with the names of the columns there.
    fn narrowest(&self, columns: Vec<Column>) -> (&'a LogicalPlan, Vec<Column>) {
        narrowest(self.plan, columns, &Estimator::default(), self.at_most)
    }
}

/// The smallest subplan with few rows that has all values of these columns, with the names of the columns
/// there.
pub(super) fn narrowest<'a>(
    plan: &'a LogicalPlan,
    columns: Vec<Column>,
    estimator: &Estimator,
    few: f64,
) -> (&'a LogicalPlan, Vec<Column>) {
    let rows = |plan| estimator.estimate(plan).rows;
    let below = match plan {
        LogicalPlan::Projection(projection) => {
            let place = |c: &Column| projection.schema.maybe_index_of_column(c);
            let passed = |at: usize| projection.expr[at].clone().unalias_nested().data.try_as_col().cloned();
            let names: Option<Vec<Column>> = columns.iter().map(|c| passed(place(c)?)).collect();
            names.map(|names| (projection.input.as_ref(), names))
        }
        LogicalPlan::Join(join) => {
            sides(join, &columns).into_iter().min_by(|(a, _), (b, _)| rows(a).total_cmp(&rows(b)))
        }
        _ => None,
    };
    match below {
        Some((input, names)) if rows(input) <= few => narrowest(input, names, estimator, few),
        _ => (plan, columns),
    }
}

/// The sides of a join that have all values of these columns in its result, with the names of the columns
/// there.
fn sides<'a>(join: &'a Join, columns: &[Column]) -> Vec<(&'a LogicalPlan, Vec<Column>)> {
    use JoinType::*;
    let left = matches!(join.join_type, Inner | Left | LeftSemi | LeftAnti | LeftMark);
    let right = matches!(join.join_type, Inner | Right | RightSemi | RightAnti | RightMark);
    let kept = [(left, &join.left), (right, &join.right)].into_iter().filter(|(kept, _)| *kept);
    let named = |side: &'a Arc<LogicalPlan>| {
        let names = columns.iter().map(|column| name_in(side, column, join)).collect::<Option<_>>()?;
        Some((side.as_ref(), names))
    };
    kept.filter_map(|(_, side)| named(side)).collect()
}

/// The column of one side of a join that has all values of a column: itself, or the one that it is compared
/// with.
fn name_in(side: &LogicalPlan, column: &Column, join: &Join) -> Option<Column> {
    let own = |c: &Column| side.schema().has_column(c);
    if own(column) {
        return Some(column.clone());
    }
    let mut equal = pairs(join).flat_map(|(l, r)| [(l, r), (r, l)]).filter(|(c, _)| *c == column);
    equal.find_map(|(_, other)| own(other).then(|| other.clone()))
}

/// Reduces an aggregate below operators that only pass columns on or filter.
fn reduce_below(
    plan: &LogicalPlan,
    pairs: &[(&Column, &Column)],
    few: &Reducer,
) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => reduce_input(aggregate, pairs, few),
        LogicalPlan::Filter(filter) => {
            let narrow = reduce_below(&filter.input, pairs, few)?;
            narrow.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose()
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let (from, to) = (plan.schema(), alias.input.schema());
            let renamed = |column: &Column| {
                from.maybe_index_of_column(column).map(|at| Column::from(to.qualified_field(at)))
            };
            reduce_through(plan, &alias.input, pairs, renamed, few)
        }
        LogicalPlan::Projection(projection) => {
            let renamed = |column: &Column| {
                let at = projection.schema.maybe_index_of_column(column)?;
                projection.expr[at].clone().unalias_nested().data.try_as_col().cloned()
            };
            reduce_through(plan, &projection.input, pairs, renamed, few)
        }
        _ => Ok(None),
    }
}

/// Reduces below an operator that renames columns.
fn reduce_through(
    plan: &LogicalPlan,
    input: &LogicalPlan,
    pairs: &[(&Column, &Column)],
    renamed: impl Fn(&Column) -> Option<Column>,
    few: &Reducer,
) -> Result<Option<LogicalPlan>> {
    let names: Vec<(Column, &Column)> =
        pairs.iter().filter_map(|(own, other)| Some((renamed(own)?, *other))).collect();
    let pairs: Vec<(&Column, &Column)> = names.iter().map(|(own, other)| (own, *other)).collect();
    let narrow = reduce_below(input, &pairs, few)?;
    narrow.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose()
}

/// The aggregate over only the rows whose groups have a partner.
fn reduce_input(
    aggregate: &Aggregate,
    pairs: &[(&Column, &Column)],
    few: &Reducer,
) -> Result<Option<LogicalPlan>> {
    let grouped = |own: &Column| aggregate.group_expr.iter().any(|e| e.try_as_col() == Some(own));
    let pairs: Vec<_> = pairs.iter().filter(|(own, _)| grouped(own)).collect();
    if pairs.is_empty() {
        return Ok(None);
    }
    let (few, columns) = few.narrowest(pairs.iter().map(|(_, other)| (*other).clone()).collect());
    let keys = semi_join_keys(Arc::new(few.clone()), columns)?;
    let own = pairs.iter().map(|(own, _)| (*own).clone());
    let rows = semi_join(Arc::clone(&aggregate.input), own, keys, NullEquality::NullEqualsNothing)?;
    let (group, calls) = (aggregate.group_expr.clone(), aggregate.aggr_expr.clone());
    let narrow = Aggregate::try_new(Arc::new(rows), group, calls)?;
    Ok(Some(LogicalPlan::Aggregate(narrow)))
}
