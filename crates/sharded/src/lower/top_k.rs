//! Sorts and limits of a relation that changes: its first rows in an order.

use super::canonical::order_key;
use super::exprs::physical;
use datafusion::arrow::compute::SortOptions;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::{FetchType, Limit, LogicalPlan, SkipType, SortExpr};
use datafusion::physical_expr::PhysicalSortExpr;
use whimbrel_plan::properties;
use whimbrel_temporal::operators::TopK;
use whimbrel_temporal::{Graph, NodeId};

/// Lowers a sort or a limit. A sort without a limit does nothing: a relation that changes has no order.
///
/// # Errors
/// `Plan` over a stream, and for a limit without an order.
pub(super) fn top_k(graph: &mut Graph, plan: &LogicalPlan, input: NodeId) -> Result<NodeId> {
    if properties(plan)?.time.is_some() {
        return plan_err!("{} has no meaning on a stream; use it on a table", plan.display());
    }
    let (sort, skip, fetch) = match plan {
        LogicalPlan::Sort(sort) => match sort.fetch {
            Some(fetch) => (sort, 0, fetch),
            None => return Ok(input),
        },
        LogicalPlan::Limit(limit) => match (limit.input.as_ref(), extent(limit)?) {
            (LogicalPlan::Sort(sort), (skip, fetch)) => (sort, skip, fetch),
            _ => return plan_err!("which rows {} keeps is open; add order by", plan.display()),
        },
        other => return plan_err!("{} is no order of rows", other.display()),
    };
    Ok(graph.add(Box::new(TopK::new(order(&sort.expr, sort.input.schema())?, skip, fetch)), &[input]))
}

/// The numbers of rows that are skipped, and fetched after them.
fn extent(limit: &Limit) -> Result<(usize, usize)> {
    match (limit.get_skip_type()?, limit.get_fetch_type()?) {
        (SkipType::Literal(skip), FetchType::Literal(fetch)) => Ok((skip, fetch.unwrap_or(usize::MAX))),
        _ => plan_err!("over a live source limit and offset are numbers"),
    }
}

/// What rows are ordered by, as physical expressions. Lists and structs are ordered as in tables.
pub(super) fn order(by: &[SortExpr], schema: &DFSchema) -> Result<Vec<PhysicalSortExpr>> {
    let one = |by: &SortExpr| {
        let expr = physical(&order_key(by.expr.clone(), schema).data, schema)?;
        let options = SortOptions { descending: !by.asc, nulls_first: by.nulls_first };
        Ok(PhysicalSortExpr { expr, options })
    };
    by.iter().map(one).collect()
}
