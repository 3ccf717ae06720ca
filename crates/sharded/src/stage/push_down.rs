//! Pushes the first step of windowed aggregates below an exchange, so that fewer rows move.
//!
//! `aggregate(window(redistribute(rows)))` becomes `aggregate(window(redistribute(combine(panes(rows)))))`. A
//! pane is the time between two steps of the window. Rows of one pane are combined before they move; the
//! windows are aggregated from panes. That is done only for aggregates which follow exactly from those of the
//! panes: counts, sums of integers, minima and maxima.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use std::sync::Arc;
use whimbrel_plan::nodes::{AlterLifetime, Combine, extension};
use whimbrel_plan::{AggFunction, Exchange, Movement, Node, aggregate_of, node, properties};
use whimbrel_temporal::{DurationRule, StartRule};

/// Computes windowed aggregates above exchanges in two steps. The result is the same.
///
/// # Errors
/// `Plan` if the plan cannot be rebuilt.
pub(crate) fn push_down_aggregates(plan: LogicalPlan) -> Result<LogicalPlan> {
    let root = plan.clone();
    let rewrite = |plan: LogicalPlan| match in_two_steps(&plan, &root)? {
        Some(steps) => Ok(Transformed::yes(steps)),
        None => Ok(Transformed::no(plan)),
    };
    plan.transform_up(rewrite).data()
}

/// The two steps of an aggregate, if it can be pushed down.
fn in_two_steps(plan: &LogicalPlan, root: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(None) };
    let Some(Node::AlterLifetime(window)) = node(&aggregate.input) else { return Ok(None) };
    let (StartRule::Snap { hop, .. }, DurationRule::Constant(size)) = (&*window.start, &*window.duration)
    else {
        return Ok(None);
    };
    let Some(Node::Exchange(exchange)) = node(&window.input) else { return Ok(None) };
    if !moves_by_group_key(exchange, aggregate)? || count_uses(root, &window.input)? > 1 {
        return Ok(None);
    }
    let Some(final_calls) = final_calls(aggregate)? else { return Ok(None) };
    let pane = DurationRule::Constant(*hop);
    let panes = AlterLifetime::try_new(
        exchange.input.clone().into_inner(),
        window.start.clone().into_inner(),
        pane,
        window.label.clone(),
    )?;
    let parts =
        Combine::try_new(extension(panes), aggregate.group_expr.clone(), aggregate.aggr_expr.clone())?;
    let redistributed = exchange.with_input(extension(parts), exchange.shards)?;
    let windows = match size == hop {
        true => extension(redistributed),
        false => extension(AlterLifetime::try_new(
            extension(redistributed),
            StartRule::Keep,
            window.duration.clone().into_inner(),
            window.label.clone(),
        )?),
    };
    let (group, schema) = (aggregate.group_expr.clone(), aggregate.schema.clone());
    let steps = Aggregate::try_new_with_schema(Arc::new(windows), group, final_calls, schema)?;
    Ok(Some(LogicalPlan::Aggregate(steps)))
}

/// Whether rows move between several shards by columns of the group key.
pub(super) fn moves_by_group_key(exchange: &Exchange, aggregate: &Aggregate) -> Result<bool> {
    let Movement::ReDistribute { key } = &*exchange.movement else { return Ok(false) };
    let from = properties(&exchange.input)?.shards;
    let columns = aggregate.group_expr.iter().all(|e| e.try_as_col().is_some());
    let grouped = key.iter().all(|k| aggregate.group_expr.contains(k));
    Ok(columns && grouped && from.max(exchange.shards.unwrap_or(from)) > 1)
}

/// How many times a part occurs in a plan.
fn count_uses(root: &LogicalPlan, part: &LogicalPlan) -> Result<usize> {
    let mut uses = 0;
    root.apply(|plan| {
        uses += (plan == part) as usize;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(uses)
}

/// The aggregates over panes, under the same names; none if one of them does not follow exactly.
fn final_calls(aggregate: &Aggregate) -> Result<Option<Vec<Expr>>> {
    let first = aggregate.group_expr.len();
    let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
    for (index, first_call) in aggregate.aggr_expr.iter().enumerate() {
        let Ok((name, of)) = aggregate_of(first_call) else { return Ok(None) };
        let part = Expr::Column(Column::from_name(&name));
        let call = match (of.function, aggregate.schema.field(first + index).data_type()) {
            (AggFunction::Count, _) => sum(part),
            (AggFunction::Sum, DataType::Int64 | DataType::UInt64) => sum(part),
            (AggFunction::Min, of) if !of.is_floating() => min(part),
            (AggFunction::Max, of) if !of.is_floating() => max(part),
            _ => return Ok(None),
        };
        calls.push(call.alias(name));
    }
    Ok(Some(calls))
}
