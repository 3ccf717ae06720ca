//! Queries that stand for one value.
//!
//! - `order by x limit 1` of a correlated one is an aggregate, the first value in that order, for which there is a join.
//! - One that may give several rows is checked while it runs: its value is the `single_value` of its rows.
//! - DataFusion's optimizer has joins for those in a `select` and a `where` only. Where one stands in an order, an
//!   aggregate or a window, it is computed as a column before.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, FetchType, LogicalPlan, LogicalPlanBuilder, SkipType, Subquery, ident,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use whimbrel_plan::single_value;

/// Makes the names of columns unique.
static COLUMNS: AtomicU64 = AtomicU64::new(0);

/// The same plan, in which every query that stands for a value gives at most one row, or fails.
pub(crate) fn checked(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| {
        let names = NamePreserver::new(&plan);
        let plan = plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_up(of_one_row)?.update_data(|expr| name.restore(expr)))
        })?;
        plan.transform_data(|plan| match plan {
            LogicalPlan::Sort(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => before(plan),
            plan => Ok(Transformed::no(plan)),
        })
    })
    .data()?
    .recompute_schema()
}

fn of_one_row(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(query) = expr else { return Ok(Transformed::no(expr)) };
    if let Some(first) = first(&query)? {
        return Ok(Transformed::yes(Expr::ScalarSubquery(query.with_plan(Arc::new(first)))));
    }
    if is_of_one_row(&query) {
        return Ok(Transformed::no(Expr::ScalarSubquery(query)));
    }
    let (qualifier, field) = query.subquery.schema().qualified_field(0);
    let (column, name) = (Expr::from((qualifier, field)), field.name().clone());
    let aggregated = LogicalPlanBuilder::from(query.subquery.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), [single_value().call(vec![column])])?;
    let value = Expr::Column(aggregated.schema().columns().swap_remove(0));
    let named = aggregated.project([value.alias(name)])?.build()?;
    Ok(Transformed::yes(Expr::ScalarSubquery(query.with_plan(Arc::new(named)))))
}

/// A correlated query with `limit 1` as an aggregate.
fn first(query: &Subquery) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Limit(limit) = query.subquery.as_ref() else { return Ok(None) };
    let (skip, fetch) = (limit.get_skip_type()?, limit.get_fetch_type()?);
    if query.outer_ref_columns.is_empty()
        || !matches!((skip, fetch), (SkipType::Literal(0), FetchType::Literal(Some(1))))
    {
        return Ok(None);
    }
    let mut value = Expr::from(query.subquery.schema().qualified_field(0));
    let mut rows = limit.input.as_ref();
    if let LogicalPlan::Projection(outer) = rows
        && matches!(outer.input.as_ref(), LogicalPlan::Sort(_))
    {
        value = outer.expr[0].clone().unalias();
        rows = outer.input.as_ref();
    }
    let mut order = vec![];
    if let LogicalPlan::Sort(sort) = rows {
        order = sort.expr.clone();
        rows = sort.input.as_ref();
    }
    let first = first_value_udaf().call(vec![value]).order_by(order).build()?;
    let aggregated = LogicalPlanBuilder::from(rows.clone()).aggregate(Vec::<Expr>::new(), [first])?;
    let value = Expr::Column(aggregated.schema().columns().swap_remove(0));
    // The columns that it is correlated by will stand beside it, and may have its name.
    let name = format!("__value_{}", COLUMNS.fetch_add(1, Ordering::Relaxed));
    Ok(Some(aggregated.project([value.alias(name)])?.build()?))
}

/// Whether it cannot give a second row. A correlated one that groups by what it is correlated with cannot either, and
/// whether it does so is looked at by DataFusion.
fn is_of_one_row(query: &Subquery) -> bool {
    let mut plan = query.subquery.as_ref();
    while let LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) = plan {
        plan = plan.inputs()[0];
    }
    let grouped = matches!(plan, LogicalPlan::Aggregate(_)) && !query.outer_ref_columns.is_empty();
    grouped || query.subquery.max_rows().is_some_and(|rows| rows <= 1)
}

/// The queries in a node's expressions as columns of its input.
fn before(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found: Vec<(Expr, String)> = Vec::new();
    for expr in plan.expressions() {
        expr.apply(|e| {
            if matches!(e, Expr::ScalarSubquery(_)) && !found.iter().any(|(known, _)| known == e) {
                found.push((e.clone(), format!("__value_{}", COLUMNS.fetch_add(1, Ordering::Relaxed))));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let inputs = plan.inputs();
    let ([input], false) = (inputs.as_slice(), found.is_empty()) else { return Ok(Transformed::no(plan)) };
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let values = found.iter().map(|(query, name)| query.clone().alias(name));
    let input =
        LogicalPlanBuilder::from((*input).clone()).project(columns.chain(values).collect::<Vec<_>>())?;
    let names = NamePreserver::new(&plan);
    let exprs = plan.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        let replaced = expr.transform_up(|e| match found.iter().find(|(known, _)| *known == e) {
            Some((_, name)) => Ok(Transformed::yes(ident(name))),
            None => Ok(Transformed::no(e)),
        });
        Ok(name.restore(replaced?.data))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let wanted: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let rewritten = plan.with_new_exprs(exprs, vec![input.build()?])?;
    Ok(Transformed::yes(match rewritten.schema().fields().len() == wanted.len() {
        true => rewritten,
        false => LogicalPlanBuilder::from(rewritten).project(wanted)?.build()?,
    }))
}
