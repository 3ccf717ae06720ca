//! Pushes the first step of windowed aggregates below an exchange, so that fewer rows move (quill.txt Fig.
//! 1 c).
//!
//! `aggregate(window(exchange(rows)))` and `aggregate(exchange(window(rows)))` become
//! `aggregate(window(exchange(combine(panes(rows)))))`. A pane is the time between two steps of the window.
//! Rows of one pane are combined before they move; the windows are aggregated from panes. That is done only
//! for aggregates which follow exactly from those of the panes: counts, sums of integers, minima and maxima.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use std::sync::Arc;
use whimbrel_plan::nodes::{AlterLifetime, Combine, extension};
use whimbrel_plan::{AggFunction, Exchange, Movement, Node, aggregate_of, node, properties};
use whimbrel_temporal::{Closed, DurationRule, Lifetimes, StartRule};

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
    let Some(moved) = MovedWindows::of(&aggregate.input)? else { return Ok(None) };
    let exchange = moved.exchange;
    let moves = moves_by_group_key(exchange, aggregate)? || moves_to_one_shard(exchange, aggregate)?;
    if !moves || count_uses(root, moved.plan)? > 1 {
        return Ok(None);
    }
    let Some(final_calls) = final_calls(aggregate)? else { return Ok(None) };
    let (group, schema) = (aggregate.group_expr.clone(), aggregate.schema.clone());
    let parts = Combine::try_new(moved.panes()?, group.clone(), aggregate.aggr_expr.clone())?;
    let redistributed = extension(exchange.with_input(extension(parts), exchange.shards)?);
    let windows = moved.windows_of_panes(redistributed)?;
    let steps = Aggregate::try_new_with_schema(Arc::new(windows), group, final_calls, schema)?;
    Ok(Some(LogicalPlan::Aggregate(steps)))
}

/// Windows of rows that move, before or after they get their windows.
struct MovedWindows<'a> {
    /// The plan of the exchange.
    plan: &'a LogicalPlan,
    exchange: &'a Exchange,
    /// The window behind the exchange, if it is there.
    behind: Option<&'a AlterLifetime>,
    size: i64,
    hop: i64,
    offset: i64,
}

impl<'a> MovedWindows<'a> {
    fn of(plan: &'a LogicalPlan) -> Result<Option<MovedWindows<'a>>> {
        match node(plan) {
            Some(Node::Exchange(exchange)) => {
                let Lifetimes::Hop { size, hop, offset } = properties(&exchange.input)?.lifetimes else {
                    return Ok(None);
                };
                Ok(Some(MovedWindows { plan, exchange, behind: None, size, hop, offset }))
            }
            Some(Node::AlterLifetime(window)) => {
                let (StartRule::Snap { hop, offset, .. }, DurationRule::Constant(size)) =
                    (&*window.start, &*window.duration)
                else {
                    return Ok(None);
                };
                let Some(Node::Exchange(exchange)) = node(&window.input) else { return Ok(None) };
                let (size, hop, offset) = (*size, *hop, *offset);
                let (plan, behind) = (&*window.input, Some(window));
                Ok(Some(MovedWindows { plan, exchange, behind, size, hop, offset }))
            }
            _ => Ok(None),
        }
    }

    /// The rows before they move, alive for a pane each.
    fn panes(&self) -> Result<LogicalPlan> {
        let rows = self.exchange.input.clone().into_inner();
        match self.behind {
            Some(window) => altered(rows, window.start.clone().into_inner(), self.hop, &window.label),
            // Windows that do not overlap are panes.
            None if self.size <= self.hop => Ok(rows),
            None => self.on_grid(rows, self.hop, "panes"),
        }
    }

    /// The windows that panes are part of.
    fn windows_of_panes(&self, panes: LogicalPlan) -> Result<LogicalPlan> {
        match self.behind {
            Some(_) if self.size == self.hop => Ok(panes),
            None if self.size <= self.hop => Ok(panes),
            Some(window) => self.on_grid(panes, self.size, &window.label),
            None => self.on_grid(panes, self.size, "windows of panes"),
        }
    }

    /// Rows that start on the grid and live this long, so that this is known of them.
    fn on_grid(&self, rows: LogicalPlan, size: i64, label: &str) -> Result<LogicalPlan> {
        let start = StartRule::Snap { hop: self.hop, offset: self.offset, closed: Closed::Right };
        altered(rows, start, size, label)
    }
}

fn altered(rows: LogicalPlan, start: StartRule<Expr>, size: i64, label: &str) -> Result<LogicalPlan> {
    let duration = DurationRule::Constant(size);
    Ok(extension(AlterLifetime::try_new(rows, start, duration, label.to_string())?))
}

/// Whether rows of several shards move to one, and are grouped by columns there.
fn moves_to_one_shard(exchange: &Exchange, aggregate: &Aggregate) -> Result<bool> {
    let is_to_one = matches!(*exchange.movement, Movement::ReShard) && exchange.shards == Some(1);
    let columns = aggregate.group_expr.iter().all(|e| e.try_as_col().is_some());
    Ok(is_to_one && columns && properties(&exchange.input)?.shards > 1)
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
