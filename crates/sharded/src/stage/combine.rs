//! Fewer rows move: an aggregate over windows right behind a redistribution gets a first step before it.
//!
//! `window(redistribute(rows))`, aggregated, becomes `redistribute(combine(panes(rows)))`, aggregated: rows that fall
//! into one pane (the stretch between two steps of the window) are put together where they are, the parts move, and
//! the windows are made of parts. Only for aggregates that follow exactly from those of the parts, bit by bit: counts,
//! sums of integers, minima, maxima.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use std::sync::Arc;
use whimbrel_plan::nodes::{AlterLifetime, Combine, extension};
use whimbrel_plan::{AggFunction, Exchange, Movement, Node, aggregate_of, node, properties};
use whimbrel_temporal::{DurationRule, StartRule};

/// The plan with the same result in which windowed aggregates are computed in two steps where rows move.
pub(crate) fn combine(plan: LogicalPlan) -> Result<LogicalPlan> {
    let whole = plan.clone();
    let rewrite = |plan: LogicalPlan| match in_two_steps(&plan, &whole)? {
        Some(steps) => Ok(Transformed::yes(steps)),
        None => Ok(Transformed::no(plan)),
    };
    plan.transform_up(rewrite).data()
}

fn in_two_steps(plan: &LogicalPlan, whole: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(None) };
    let Some(Node::AlterLifetime(window)) = node(&aggregate.input) else { return Ok(None) };
    let (StartRule::Snap { hop, .. }, DurationRule::Constant(size)) = (&*window.start, &*window.duration)
    else {
        return Ok(None);
    };
    let Some(Node::Exchange(exchange)) = node(&window.input) else { return Ok(None) };
    if !moves_groups(exchange, aggregate)? || uses(whole, &window.input)? > 1 {
        return Ok(None);
    }
    let Some(again) = second_calls(aggregate)? else { return Ok(None) };
    let pane = DurationRule::Constant(*hop);
    let panes = AlterLifetime::try_new(
        exchange.input.clone().into_inner(),
        window.start.clone().into_inner(),
        pane,
        window.label.clone(),
    )?;
    let parts =
        Combine::try_new(extension(panes), aggregate.group_expr.clone(), aggregate.aggr_expr.clone())?;
    let moved = Exchange::try_new(
        extension(parts),
        exchange.movement.clone().into_inner(),
        exchange.shards,
        exchange.scope,
    )?;
    let windows = match size == hop {
        true => extension(moved),
        false => extension(AlterLifetime::try_new(
            extension(moved),
            StartRule::Keep,
            window.duration.clone().into_inner(),
            window.label.clone(),
        )?),
    };
    let (group, schema) = (aggregate.group_expr.clone(), aggregate.schema.clone());
    let steps = Aggregate::try_new_with_schema(Arc::new(windows), group, again, schema)?;
    Ok(Some(LogicalPlan::Aggregate(steps)))
}

/// Whether rows move between several shards, by columns that the aggregate groups by.
fn moves_groups(exchange: &Exchange, aggregate: &Aggregate) -> Result<bool> {
    let Movement::ReDistribute { key } = &*exchange.movement else { return Ok(false) };
    let from = properties(&exchange.input)?.shards;
    let columns = aggregate.group_expr.iter().all(|e| e.try_as_col().is_some());
    let grouped = key.iter().all(|k| aggregate.group_expr.contains(k));
    Ok(columns && grouped && from.max(exchange.shards.unwrap_or(from)) > 1)
}

/// How many times a plan reads a part of itself.
fn uses(whole: &LogicalPlan, part: &LogicalPlan) -> Result<usize> {
    let mut uses = 0;
    whole.apply(|plan| {
        uses += (plan == part) as usize;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(uses)
}

/// The aggregates over the parts, under the same names; none if one of them does not follow exactly.
fn second_calls(aggregate: &Aggregate) -> Result<Option<Vec<Expr>>> {
    let first = aggregate.group_expr.len();
    let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
    for (place, call) in aggregate.aggr_expr.iter().enumerate() {
        let Ok((name, of)) = aggregate_of(call) else { return Ok(None) };
        let part = Expr::Column(Column::from_name(&name));
        let again = match (of.function, aggregate.schema.field(first + place).data_type()) {
            (AggFunction::Count, _) => sum(part),
            (AggFunction::Sum, DataType::Int64 | DataType::UInt64) => sum(part),
            (AggFunction::Min, of) if !of.is_floating() => min(part),
            (AggFunction::Max, of) if !of.is_floating() => max(part),
            _ => return Ok(None),
        };
        calls.push(again.alias(name));
    }
    Ok(Some(calls))
}
