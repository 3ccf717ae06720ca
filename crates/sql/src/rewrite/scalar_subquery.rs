//! Subqueries that stand for one value.
//!
//! - A correlated one with `order by x limit 1` becomes an aggregate, the first value in that order, for
//!   which there is a join.
//! - One that may give several rows is checked while it runs: its value becomes the `single_value` of its
//!   rows.
//! - DataFusion's optimizer has joins for those in a `select` and a `where` only. One in an order, an
//!   aggregate or a window becomes a column of the input.
//!
//! ```sql
//! select (select max(x) from u where u.k = t.k) from t;            -- one row already: stays
//! select (select x from u where u.k = t.k) from t;                 -- single_value(x)
//! select (select x from u where u.k = t.k order by y limit 1) from t;  -- first_value(x order by y)
//! select k from t order by (select y from u where u.k = t.k);      -- a column before the sort
//! ```

use super::expressions::{Pick, contains_subquery, hoist_expressions, rewrite_expressions};
use crate::columns::fresh_name;
use crate::tree::transform_up_with_subqueries;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, FetchType, LogicalPlan, LogicalPlanBuilder, SkipType, Subquery, Union, Values,
};
use std::sync::Arc;
use whimbrel_plan::single_value;

/// The plan with scalar subqueries that give at most one row, or fail.
///
/// # Errors
/// `Plan` if a subquery cannot be aggregated.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up_with_subqueries(plan, &mut |plan| {
        let plan = match plan {
            LogicalPlan::Values(values) if values.values.iter().flatten().any(contains_subquery) => {
                values_as_selects(&values)?
            }
            plan => plan,
        };
        rewrite_expressions(plan, &mut with_one_row)?.transform_data(|plan| match &plan {
            LogicalPlan::Sort(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => hoisted(plan),
            _ => Ok(Transformed::no(plan)),
        })
    })?
    .recompute_schema()
}

/// A scalar subquery with a check that it gives one row, where it might give more.
fn with_one_row(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(query) = expr else { return Ok(Transformed::no(expr)) };
    if let Some(first) = limit_one_as_aggregate(&query)? {
        return Ok(Transformed::yes(Expr::ScalarSubquery(query.with_plan(Arc::new(first)))));
    }
    let rows = LogicalPlanBuilder::from(query.subquery.as_ref().clone());
    // Without a row the value is null, which a column that cannot be null would not become.
    let may_be_null = exactly_one(&query.subquery) || query.subquery.schema().field(0).is_nullable();
    let one = match may_be_null && at_most_one(&query.subquery) {
        true => rows,
        false => {
            let column = Expr::from(query.subquery.schema().qualified_field(0));
            rows.aggregate(Vec::<Expr>::new(), [single_value().call(vec![column])])?
        }
    };
    // A column that the subquery is correlated by will stand beside its value, and may have the value's name.
    let value = Expr::Column(one.schema().columns().swap_remove(0));
    let named = one.project([value.alias(fresh_name("value"))])?.build()?;
    Ok(Transformed::yes(Expr::ScalarSubquery(query.with_plan(Arc::new(named)))))
}

/// A correlated subquery with `limit 1` as an aggregate.
fn limit_one_as_aggregate(query: &Subquery) -> Result<Option<LogicalPlan>> {
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
    Ok(Some(aggregated.project([value.alias(fresh_name("value"))])?.build()?))
}

/// Whether a query gives at most one row.
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

/// Whether a query gives exactly one row.
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

/// `values` with subqueries as selects: DataFusion has no join for subqueries in values.
///
/// # Errors
/// `Plan` if the rows cannot be united.
pub(super) fn values_as_selects(values: &Values) -> Result<LogicalPlan> {
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

/// A node with its scalar subqueries computed before it.
fn hoisted(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let wanted = |e: &Expr| if matches!(e, Expr::ScalarSubquery(_)) { Pick::Take } else { Pick::Descend };
    Ok(match hoist_expressions(&plan, &wanted, Ok)? {
        Some(hoisted) => Transformed::yes(hoisted),
        None => Transformed::no(plan),
    })
}
