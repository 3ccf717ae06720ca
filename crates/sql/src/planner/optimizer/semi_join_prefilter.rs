//! A semi join by one integer column before a join by several columns.
//!
//! `few join many on a = x and b = y` becomes
//! `few join (select … from many where x in (select a from few)) on …`: looking up a pair in a large hash
//! table is slow, and one integer is looked up in an array while the rows are read. The reducer is the
//! smallest subplan of `few` that has the column, often a filtered table.

use super::semi_join::{is_volatile_plan, pairs, semi_join, semi_join_keys};
use super::semi_join_reduction::narrowest;
use crate::single_shard::is_single_shard;
use crate::tree::transform_up;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Join, LogicalPlan};
use std::sync::Arc;
use whimbrel_plan::estimate::Estimator;
use whimbrel_plan::node;
use whimbrel_plan::nodes::Node;

/// The other side has so many times more rows, at least.
const TIMES: f64 = 8.0;
/// The semi join keeps at most such a part of the values.
const KEPT: f64 = 0.25;

/// Adds such semi joins.
///
/// # Errors
/// `Plan` if a semi join cannot be built.
pub(super) fn add_prefilters(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up(plan, &mut |plan| match &plan {
        LogicalPlan::Join(join) => match prefiltered_inputs(join)? {
            Some(inputs) => Ok(Transformed::yes(plan.with_new_exprs(plan.expressions(), inputs.to_vec())?)),
            None => Ok(Transformed::no(plan)),
        },
        _ => Ok(Transformed::no(plan)),
    })
}

/// The inputs of a join, one of them prefiltered; `None` if neither is worth it.
fn prefiltered_inputs(join: &Join) -> Result<Option<[LogicalPlan; 2]>> {
    let is_inner = join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNothing;
    if !is_inner || join.on.len() < 2 {
        return Ok(None);
    }
    let (left, right) = (join.left.as_ref(), join.right.as_ref());
    let pairs: Vec<(&Column, &Column)> = pairs(join).collect();
    if let Some(left) = prefiltered(left, right, &pairs)? {
        return Ok(Some([left, right.clone()]));
    }
    let swapped: Vec<(&Column, &Column)> = pairs.iter().map(|(l, r)| (*r, *l)).collect();
    Ok(prefiltered(right, left, &swapped)?.map(|right| [left.clone(), right]))
}

/// `many` without rows that have no partner by one column. `pairs` are its key columns with those of `few`.
fn prefiltered(
    many: &LogicalPlan,
    few: &LogicalPlan,
    pairs: &[(&Column, &Column)],
) -> Result<Option<LogicalPlan>> {
    if !is_scan(many) || is_volatile_plan(few) {
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
        let kept = estimator.estimate(part).rows / known.columns[at].distinct.max(1.0);
        if let [name] = names.as_slice()
            && kept <= best.as_ref().map_or(KEPT, |(least, ..)| *least)
        {
            best = Some((kept, own, part, name.clone()));
        }
    }
    let Some((_, own, part, name)) = best else { return Ok(None) };
    let keys = semi_join_keys(Arc::new(part.clone()), [name])?;
    semi_join(Arc::new(many.clone()), [own.clone()], keys, NullEquality::NullEqualsNothing).map(Some)
}

/// Whether a plan is a scan with row-by-row operators, so that the semi join filters while rows are read.
pub(super) fn is_scan(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Extension(_) => match node(plan) {
            Some(Node::Exchange(exchange)) => is_single_shard(exchange) && is_scan(&exchange.input),
            _ => false,
        },
        LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_) => {
            plan.inputs().into_iter().all(is_scan)
        }
        _ => false,
    }
}
