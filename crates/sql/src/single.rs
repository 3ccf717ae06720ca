//! Queries that stand for one value.
//!
//! - `order by x limit 1` of a correlated one is an aggregate, the first value in that order, for which there is a join.
//! - One that may give several rows is checked while it runs: its value is the `single_value` of its rows.
//! - DataFusion's optimizer has joins for those in a `select` and a `where` only. Where one stands in an order, an
//!   aggregate or a window, it is computed as a column before.

use crate::fresh;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, FetchType, LogicalPlan, LogicalPlanBuilder, SkipType, Subquery, Union, Values,
    ident,
};
use std::sync::Arc;
use whimbrel_plan::single_value;

/// The same plan, in which every query that stands for a value gives at most one row, or fails.
pub(crate) fn checked(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| {
        let names = NamePreserver::new(&plan);
        let plan = match plan {
            LogicalPlan::Values(values) if values.values.iter().flatten().any(asks) => selected(&values)?,
            plan => plan,
        };
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
    let rows = LogicalPlanBuilder::from(query.subquery.as_ref().clone());
    // Without a row the value is null, which a column that says it never is would not become.
    let told = exactly_one(&query.subquery) || query.subquery.schema().field(0).is_nullable();
    let one = match told && at_most_one(&query.subquery) {
        true => rows,
        false => {
            let column = Expr::from(query.subquery.schema().qualified_field(0));
            rows.aggregate(Vec::<Expr>::new(), [single_value().call(vec![column])])?
        }
    };
    let value = Expr::Column(one.schema().columns().swap_remove(0));
    let named = one.project([value.alias(fresh::name("value"))])?.build()?;
    Ok(Transformed::yes(Expr::ScalarSubquery(query.with_plan(Arc::new(named)))))
}

/// The columns that a query is correlated by will stand beside its value, and may have the name that it has.
fn new_name() -> String {
    fresh::name("value")
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
    Ok(Some(aggregated.project([value.alias(fresh::name("value"))])?.build()?))
}

/// Whether a query cannot give a second row.
fn at_most_one(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(_) => at_most_one(plan.inputs()[0]),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1)))) || at_most_one(&limit.input)
        }
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(values) => values.values.len() <= 1,
        _ => false,
    }
}

/// Whether a query always gives a row, and no second one.
fn exactly_one(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(_) => exactly_one(plan.inputs()[0]),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Values(values) => values.values.len() == 1,
        _ => false,
    }
}

/// Whether there is a subquery in an expression.
pub(crate) fn asks(expr: &Expr) -> bool {
    let subquery = |e: &Expr| matches!(e, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_));
    // The closure never fails.
    expr.exists(|e| Ok(subquery(e))).unwrap_or(false)
}

/// `values` in which queries stand, as selects: DataFusion has no join for queries in values.
pub(crate) fn selected(values: &Values) -> Result<LogicalPlan> {
    let rows = values.values.iter().map(|row| {
        let columns = row.iter().zip(values.schema.fields());
        let columns = columns.map(|(value, field)| value.clone().alias(field.name()));
        Ok(Arc::new(LogicalPlanBuilder::empty(true).project(columns.collect::<Vec<_>>())?.build()?))
    });
    let mut rows = rows.collect::<Result<Vec<_>>>()?;
    Ok(match rows.len() {
        1 => Arc::unwrap_or_clone(rows.swap_remove(0)),
        _ => LogicalPlan::Union(Union::try_new_with_loose_types(rows)?),
    })
}

/// The queries in a node's expressions as columns of its input.
fn before(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found: Vec<(Expr, String)> = Vec::new();
    for expr in plan.expressions() {
        expr.apply(|e| {
            if matches!(e, Expr::ScalarSubquery(_)) && !found.iter().any(|(known, _)| known == e) {
                found.push((e.clone(), new_name()));
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
