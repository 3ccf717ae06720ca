//! Joins that differ in nothing but the columns that they keep are made equal, so that they are computed once.
//!
//! A part and the whole that it is compared with (`having sum(x) > (select sum(x) * 0.0001 from …)`) are made of one
//! join, of which each keeps what it needs. Here both keep what either needs, and drop the rest above it.

use super::leaf::is_whole;
use super::semi::partner;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{
    Expr, Filter, Join, LogicalPlan, Projection, SubqueryAlias, TableScan, TableScanBuilder,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use whimbrel_plan::node;
use whimbrel_plan::nodes::{Exchange, Node, extension};

/// The plan in which joins are equal that can be: rows that were picked by their partners wherever they are, other joins
/// where they are not a part of a larger one.
pub(super) fn shared(plan: LogicalPlan) -> Result<LogicalPlan> {
    equal(equal(plan, is_picked)?, is_join_of_rows)
}

/// The plan in which these joins are equal that can be.
fn equal(plan: LogicalPlan, is_one: impl Fn(&LogicalPlan) -> bool) -> Result<LogicalPlan> {
    let mut joins = Vec::new();
    plan.apply(|plan| {
        Ok(match is_one(plan) {
            true => {
                joins.push(plan);
                TreeNodeRecursion::Jump
            }
            false => TreeNodeRecursion::Continue,
        })
    })?;
    // For each join the one that all of its kind become.
    let (mut kinds, mut kind_of) = (Vec::<(LogicalPlan, usize)>::new(), Vec::new());
    for join in joins {
        let kind = match joined_with(&kinds, join)? {
            Some((kind, both)) => {
                kinds[kind] = (both, kinds[kind].1 + 1);
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
    plan.transform_down(|plan| {
        if !is_one(&plan) {
            return Ok(Transformed::no(plan));
        }
        let kind = kind_of.next().and_then(|kind| kinds.get(kind)).filter(|(_, times)| *times > 1);
        Ok(match kind {
            Some((join, _)) => Transformed::new(only(join, plan.schema())?, true, TreeNodeRecursion::Jump),
            None => Transformed::new(plan, false, TreeNodeRecursion::Jump),
        })
    })
    .data()
}

fn joined_with(kinds: &[(LogicalPlan, usize)], join: &LogicalPlan) -> Result<Option<(usize, LogicalPlan)>> {
    for (kind, (known, _)) in kinds.iter().enumerate() {
        if let Some(both) = both(known, join)? {
            return Ok(Some((kind, both)));
        }
    }
    Ok(None)
}

/// These columns of a plan that has them, and maybe more.
fn only(plan: &LogicalPlan, columns: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().as_ref() == columns {
        return Ok(plan.clone());
    }
    let columns = columns.columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan.clone()))?))
}

fn is_picked(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if partner(join).is_some()) && is_join_of_rows(plan)
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

fn is_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => scan.fetch.is_none(),
        LogicalPlan::Extension(_) => whole_table(plan).is_some_and(|exchange| is_rows(&exchange.input)),
        LogicalPlan::Projection(projection) => keeps(projection) && is_rows(&projection.input),
        // Rows that were left out by chance would be left out once for all who share them.
        LogicalPlan::Filter(filter) => !filter.predicate.is_volatile() && is_rows(&filter.input),
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_) => plan.inputs().into_iter().all(is_rows),
        _ => false,
    }
}

/// What brings all rows of a table to one place, if the plan is that.
fn whole_table(plan: &LogicalPlan) -> Option<&Exchange> {
    match node(plan) {
        Some(Node::Exchange(exchange)) => is_whole(exchange).then_some(exchange),
        _ => None,
    }
}

/// Whether columns are kept or renamed, and nothing is computed.
fn keeps(projection: &Projection) -> bool {
    projection.expr.iter().all(|expr| match expr {
        Expr::Alias(alias) => alias.expr.try_as_col().is_some(),
        other => other.try_as_col().is_some(),
    })
}

/// The plan that keeps the columns of both, if they are the same but for these.
pub(super) fn both(one: &LogicalPlan, other: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    use LogicalPlan as P;
    let of_inputs =
        |one: &LogicalPlan, other: &LogicalPlan| -> Result<_> { Ok(both(one, other)?.map(Arc::new)) };
    Ok(match (one, other) {
        (P::TableScan(one), P::TableScan(other)) => both_scans(one, other)?,
        (P::Extension(_), P::Extension(_)) => match (whole_table(one), whole_table(other)) {
            (Some(one), Some(other)) => both(&one.input, &other.input)?
                .map(|input| Exchange::try_new(input, one.movement.clone(), one.shards, one.scope))
                .transpose()?
                .map(extension),
            _ => None,
        },
        (P::Projection(one), P::Projection(other)) => both_projections(one, other)?,
        // What drops columns is not needed where they are kept.
        (P::Projection(one), other) if drops(one) => both(&one.input, other)?,
        (one, P::Projection(other)) if drops(other) => both(one, &other.input)?,
        (P::SubqueryAlias(one), P::SubqueryAlias(other)) if one.alias == other.alias => {
            of_inputs(&one.input, &other.input)?
                .map(|input| SubqueryAlias::try_new(input, one.alias.clone()))
                .transpose()?
                .map(P::SubqueryAlias)
        }
        (P::Filter(one), P::Filter(other)) if one.predicate == other.predicate => {
            of_inputs(&one.input, &other.input)?
                .map(|input| Filter::try_new(one.predicate.clone(), input))
                .transpose()?
                .map(P::Filter)
        }
        (P::Join(one), P::Join(other)) if alike(one, other) => {
            match (of_inputs(&one.left, &other.left)?, of_inputs(&one.right, &other.right)?) {
                (Some(left), Some(right)) => both_joins(one, left, right),
                _ => None,
            }
        }
        _ => None,
    })
}

/// None if names collide that were dropped before.
fn both_joins(join: &Join, left: Arc<LogicalPlan>, right: Arc<LogicalPlan>) -> Option<LogicalPlan> {
    let (on, filter) = (join.on.clone(), join.filter.clone());
    let Join { join_type, join_constraint, null_equality, null_aware, .. } = *join;
    let join = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware);
    join.ok().map(LogicalPlan::Join)
}

/// Whether two joins pair rows alike.
fn alike(one: &Join, other: &Join) -> bool {
    one.on == other.on
        && one.filter == other.filter
        && one.join_type == other.join_type
        && one.null_equality == other.null_equality
        && one.null_aware == other.null_aware
}

/// Whether columns keep their names.
pub(super) fn drops(projection: &Projection) -> bool {
    projection.expr.iter().all(|expr| expr.try_as_col().is_some())
}

fn both_scans(one: &TableScan, other: &TableScan) -> Result<Option<LogicalPlan>> {
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

/// A name may stand for one column only.
fn both_projections(one: &Projection, other: &Projection) -> Result<Option<LogicalPlan>> {
    let Some(input) = both(&one.input, &other.input)? else { return Ok(None) };
    let mut exprs = one.expr.clone();
    exprs.extend(other.expr.iter().filter(|expr| !one.expr.contains(expr)).cloned());
    let names: BTreeSet<_> = exprs.iter().map(|expr| expr.qualified_name()).collect();
    if names.len() < exprs.len() {
        return Ok(None);
    }
    Ok(Some(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?)))
}
