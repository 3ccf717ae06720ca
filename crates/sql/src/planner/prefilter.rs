//! Rows that several columns have to match in are left out by one of them first.
//!
//! `few join many on a = x and b = y` becomes `few join (select … from many where x in (select a from few)) on …`: a
//! table of pairs is large, and each look-up in it is slow; one column of whole numbers is looked up in an array while
//! the rows are read. Of `few` its smallest part that has the column is asked, often a table that was filtered.

use super::leaf::is_whole;
use super::reduce::narrowest;
use super::semi::{is_by_chance, pairs, partners, semi};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Join, LogicalPlan};
use std::sync::Arc;
use whimbrel_plan::estimate::Estimator;
use whimbrel_plan::node;
use whimbrel_plan::nodes::Node;

/// A side has few rows if the other has so many times more.
const TIMES: f64 = 8.0;
/// One column is worth asking if at most such a part of the values is left.
const LEFT: f64 = 0.25;

/// The plan in which many rows are asked for one column first.
pub(super) fn prefiltered(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| match &plan {
        LogicalPlan::Join(join) => match asked_first(join)? {
            Some(inputs) => Ok(Transformed::yes(plan.with_new_exprs(plan.expressions(), inputs.to_vec())?)),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

/// The inputs of a join of which one has fewer rows.
fn asked_first(join: &Join) -> Result<Option<[LogicalPlan; 2]>> {
    let plain = join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing;
    if !plain || join.on.len() < 2 {
        return Ok(None);
    }
    let (left, right) = (join.left.as_ref(), join.right.as_ref());
    let pairs: Vec<(&Column, &Column)> = pairs(join).collect();
    if let Some(left) = left_out(left, right, &pairs)? {
        return Ok(Some([left, right.clone()]));
    }
    let turned: Vec<(&Column, &Column)> = pairs.iter().map(|(l, r)| (*r, *l)).collect();
    Ok(left_out(right, left, &turned)?.map(|right| [left.clone(), right]))
}

/// `many` without rows that one column says have no partner; `pairs`: its columns, with those of `few`.
fn left_out(
    many: &LogicalPlan,
    few: &LogicalPlan,
    pairs: &[(&Column, &Column)],
) -> Result<Option<LogicalPlan>> {
    if !is_read(many) || is_by_chance(few)? {
        return Ok(None);
    }
    let estimator = Estimator::default();
    let (known, rows) = (estimator.estimate(many), estimator.estimate(few).rows);
    if rows * TIMES > known.rows {
        return Ok(None);
    }
    let mut best: Option<(f64, &Column, &LogicalPlan, Column)> = None;
    for (own, other) in pairs {
        let at = many.schema().index_of_column(own)?;
        if !many.schema().field(at).data_type().is_integer() {
            continue;
        }
        let (part, names) = narrowest(few, vec![(*other).clone()], &estimator, rows);
        let left = estimator.estimate(part).rows / known.columns[at].distinct.max(1.0);
        if let [name] = names.as_slice()
            && left <= best.as_ref().map_or(LEFT, |(least, ..)| *least)
        {
            best = Some((left, own, part, name.clone()));
        }
    }
    let Some((_, own, part, name)) = best else { return Ok(None) };
    let wanted = partners(Arc::new(part.clone()), [name])?;
    semi(Arc::new(many.clone()), [own.clone()], wanted, NullEquality::NullEqualsNothing).map(Some)
}

/// Whether these are rows as they are read, which are left out while they are.
pub(super) fn is_read(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Extension(_) => match node(plan) {
            Some(Node::Exchange(exchange)) => is_whole(exchange) && is_read(&exchange.input),
            _ => false,
        },
        LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_) => {
            plan.inputs().into_iter().all(is_read)
        }
        _ => false,
    }
}
