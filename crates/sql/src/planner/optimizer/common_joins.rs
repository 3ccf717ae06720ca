//! Joins that differ only in the columns that they keep are made equal, so that they are computed once.
//!
//! In `having sum(x) > (select sum(x) * 0.0001 from …)` the query and its subquery read the same join, of
//! which each keeps the columns that it needs. Here both keep the columns that either needs, and a projection
//! above drops the others.

use super::semi_join::reducer;
use crate::single_shard::is_single_shard;
use crate::tree::{is_same_expr, transform_down, visit_plan};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{
    Expr, Filter, Join, LogicalPlan, Projection, SubqueryAlias, TableScan, TableScanBuilder,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use whimbrel_plan::node;
use whimbrel_plan::nodes::{Exchange, Node, extension};

/// Makes joins equal where that is possible: semi joins that the optimizer added everywhere, other joins
/// where they are not part of a larger one.
///
/// # Errors
/// `Plan` if a join cannot be built with the columns of both.
pub(super) fn share_common_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    unify_joins(unify_joins(plan, is_added_semi_join)?, is_join_of_rows)
}

/// Makes the joins equal that `is_candidate` picks.
fn unify_joins(plan: LogicalPlan, is_candidate: fn(&LogicalPlan) -> bool) -> Result<LogicalPlan> {
    let mut joins = Vec::new();
    visit_plan(&plan, &mut |plan| {
        Ok(match is_candidate(plan) {
            true => {
                joins.push(plan.clone());
                TreeNodeRecursion::Jump
            }
            false => TreeNodeRecursion::Continue,
        })
    })?;
    // Joins of one kind become one join, which is counted.
    let (mut kinds, mut kind_of) = (Vec::<(LogicalPlan, usize)>::new(), Vec::new());
    for join in joins {
        let kind = match unify_with_known(&kinds, &join)? {
            Some((kind, unified)) => {
                kinds[kind] = (unified, kinds[kind].1 + 1);
                kind
            }
            None => {
                kinds.push((join.clone(), 1));
                kinds.len() - 1
            }
        };
        kind_of.push(kind);
    }
    if kinds.iter().all(|(_, times)| *times == 1) {
        return Ok(plan);
    }
    // The walk meets the same joins in the same order.
    let mut kind_of = kind_of.into_iter();
    transform_down(plan, &mut |plan| {
        if !is_candidate(&plan) {
            return Ok(Transformed::no(plan));
        }
        let kind = kind_of.next().and_then(|kind| kinds.get(kind)).filter(|(_, times)| *times > 1);
        Ok(match kind {
            Some((join, _)) => {
                Transformed::new(select_columns(join, plan.schema())?, true, TreeNodeRecursion::Jump)
            }
            None => Transformed::new(plan, false, TreeNodeRecursion::Jump),
        })
    })
    .data()
}

/// The first kind that a join can be unified with, and what they become.
fn unify_with_known(
    kinds: &[(LogicalPlan, usize)],
    join: &LogicalPlan,
) -> Result<Option<(usize, LogicalPlan)>> {
    for (kind, (known, _)) in kinds.iter().enumerate() {
        if let Some(unified) = unify(known, join)? {
            return Ok(Some((kind, unified)));
        }
    }
    Ok(None)
}

/// These columns of a plan that has them, and maybe others.
fn select_columns(plan: &LogicalPlan, columns: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().as_ref() == columns {
        return Ok(plan.clone());
    }
    let columns = columns.columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan.clone()))?))
}

/// Whether a plan is a semi join that the optimizer added, over rows of tables.
fn is_added_semi_join(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if reducer(join).is_some()) && is_join_of_rows(plan)
}

/// Whether a plan joins rows of tables and computes nothing of them.
fn is_join_of_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => is_rows(&join.left) && is_rows(&join.right),
        LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Projection(_) => {
            is_rows(plan) && plan.inputs().into_iter().all(is_join_of_rows)
        }
        _ => false,
    }
}

/// Whether a plan reads rows of tables and computes nothing but filters.
fn is_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => scan.fetch.is_none(),
        LogicalPlan::Extension(_) => {
            gathering_exchange(plan).is_some_and(|exchange| is_rows(&exchange.input))
        }
        LogicalPlan::Projection(projection) => is_renaming(projection) && is_rows(&projection.input),
        // A volatile filter would be evaluated once for all who share it.
        LogicalPlan::Filter(filter) => !filter.predicate.is_volatile() && is_rows(&filter.input),
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_) => plan.inputs().into_iter().all(is_rows),
        _ => false,
    }
}

/// The exchange that brings all rows to one shard, if the plan is one.
fn gathering_exchange(plan: &LogicalPlan) -> Option<&Exchange> {
    match node(plan) {
        Some(Node::Exchange(exchange)) => is_single_shard(exchange).then_some(exchange),
        _ => None,
    }
}

/// Whether a projection keeps or renames columns, and computes nothing.
fn is_renaming(projection: &Projection) -> bool {
    projection.expr.iter().all(|expr| match expr {
        Expr::Alias(alias) => alias.expr.try_as_col().is_some(),
        other => other.try_as_col().is_some(),
    })
}

/// The plan with the columns of both plans, if they differ only in their columns.
///
/// # Errors
/// `Plan` if a node cannot be built with the columns of both.
pub(super) fn unify(one: &LogicalPlan, other: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    use LogicalPlan as P;
    let of_inputs =
        |one: &LogicalPlan, other: &LogicalPlan| -> Result<_> { Ok(unify(one, other)?.map(Arc::new)) };
    Ok(match (one, other) {
        (P::TableScan(one), P::TableScan(other)) => unify_scans(one, other)?,
        (P::Extension(_), P::Extension(_)) => match (gathering_exchange(one), gathering_exchange(other)) {
            (Some(one), Some(other)) => unify(&one.input, &other.input)?
                .map(|input| one.with_input(input, one.shards))
                .transpose()?
                .map(extension),
            _ => None,
        },
        (P::Projection(one), P::Projection(other)) => unify_projections(one, other)?,
        // A projection that drops columns is left out where they are kept.
        (P::Projection(one), other) if is_column_selection(one) => unify(&one.input, other)?,
        (one, P::Projection(other)) if is_column_selection(other) => unify(one, &other.input)?,
        (P::SubqueryAlias(one), P::SubqueryAlias(other)) if one.alias == other.alias => {
            of_inputs(&one.input, &other.input)?
                .map(|input| SubqueryAlias::try_new(input, one.alias.clone()))
                .transpose()?
                .map(P::SubqueryAlias)
        }
        (P::Filter(one), P::Filter(other)) if is_same_expr(&one.predicate, &other.predicate) => {
            of_inputs(&one.input, &other.input)?
                .map(|input| Filter::try_new(one.predicate.clone(), input))
                .transpose()?
                .map(P::Filter)
        }
        (P::Join(one), P::Join(other)) if is_same_join(one, other) => {
            match (of_inputs(&one.left, &other.left)?, of_inputs(&one.right, &other.right)?) {
                (Some(left), Some(right)) => unify_joins_of(one, left, right),
                _ => None,
            }
        }
        _ => None,
    })
}

/// The join over unified inputs; `None` if names collide that were dropped before.
fn unify_joins_of(join: &Join, left: Arc<LogicalPlan>, right: Arc<LogicalPlan>) -> Option<LogicalPlan> {
    let (on, filter) = (join.on.clone(), join.filter.clone());
    let Join { join_type, join_constraint, null_equality, null_aware, .. } = *join;
    let join = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware);
    join.ok().map(LogicalPlan::Join)
}

/// Whether two joins have the same type and conditions.
fn is_same_join(one: &Join, other: &Join) -> bool {
    one.on == other.on
        && one.filter == other.filter
        && one.join_type == other.join_type
        && one.null_equality == other.null_equality
        && one.null_aware == other.null_aware
}

/// Whether a projection only selects columns, with their names.
pub(super) fn is_column_selection(projection: &Projection) -> bool {
    projection.expr.iter().all(|expr| expr.try_as_col().is_some())
}

/// The scan with the columns of both; `None` if the tables or their filters differ.
fn unify_scans(one: &TableScan, other: &TableScan) -> Result<Option<LogicalPlan>> {
    if one.table_name != other.table_name || one.filters != other.filters || one.fetch != other.fetch {
        return Ok(None);
    }
    let columns = match (&one.projection, &other.projection) {
        (Some(one), Some(other)) => {
            let columns: BTreeSet<usize> = one.iter().chain(other).copied().collect();
            Some(columns.into_iter().collect())
        }
        _ => None,
    };
    let builder = TableScanBuilder::new(one.table_name.clone(), Arc::clone(&one.source));
    let builder = builder.with_projection(columns).with_filters(one.filters.clone());
    Ok(Some(LogicalPlan::TableScan(builder.with_fetch(one.fetch).build()?)))
}

/// The projection of both; `None` if a name would stand for two columns.
fn unify_projections(one: &Projection, other: &Projection) -> Result<Option<LogicalPlan>> {
    let Some(input) = unify(&one.input, &other.input)? else { return Ok(None) };
    let mut exprs = one.expr.clone();
    exprs.extend(other.expr.iter().filter(|expr| !one.expr.contains(expr)).cloned());
    let names: BTreeSet<_> = exprs.iter().map(|expr| expr.qualified_name()).collect();
    if names.len() < exprs.len() {
        return Ok(None);
    }
    Ok(Some(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?)))
}
