//! Correlated subqueries for which DataFusion's optimizer has no join, and `lateral`, as dependent joins.
//!
//! The optimizer has joins for subqueries that compare columns with outer ones in a filter right below the
//! projection, and for an aggregate if they compare by `=`. All others become joins here (Neumann and Kemper
//! 2015, §3): of the outer rows only the different values of the columns that the subquery reads matter, its
//! *bindings*. The subquery is computed for all of them at once ([`Bindings`]), and joined with the outer
//! rows by these values.
//!
//! Invariant: an outer row is joined with at most one row for a subquery in an expression, so the number of
//! rows stays.
//!
//! ```sql
//! select (select count(*) from u where u.x < t.x) from t;
//! -- select n from t join (
//! --     select b.x, count(u.x) as n
//! --     from (select distinct x from t) b left join u on u.x < b.x
//! --     group by b.x
//! -- ) on t.x is not distinct from b.x
//! ```

use super::dependent_join::{Bindings, outer_columns};
use super::expressions::{Pick, find_expressions, replace_expressions};
use super::membership_subqueries::matching_rows;
use crate::columns::fresh_name;
use crate::tree::transform_up_with_subqueries;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, JoinType, Result};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr, FetchType, Join, LogicalPlan, LogicalPlanBuilder, Operator, SkipType, Subquery, ident,
    is_not_null, is_null, lit,
};
use std::sync::Arc;

/// The plan with these subqueries as joins.
///
/// # Errors
/// `NotImplemented` if an operator of a correlated subquery has no rule.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up_with_subqueries(plan, &mut |plan| match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => join_subqueries(plan),
        LogicalPlan::Join(join) => join_lateral(join),
        _ => Ok(Transformed::no(plan)),
    })
}

/// A projection or a filter, with the subqueries in its expressions joined to its input.
fn join_subqueries(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let Some(input) = plan.inputs().first().map(|input| (*input).clone()) else {
        return Ok(Transformed::no(plan));
    };
    let found = find_expressions(&plan, &|e| pick(e, input.schema()))?;
    if found.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut rows = input.clone();
    let mut values = Vec::new();
    for expr in found {
        let (with_value, value) = match &expr {
            Expr::ScalarSubquery(query) => join_value(&input, rows, &query.subquery)?,
            Expr::Exists(exists) => join_existence(&input, rows, &exists.subquery.subquery, exists.negated)?,
            Expr::InSubquery(member) => {
                let query = matching_rows(member.clone(), input.schema())?;
                join_existence(&input, rows, &query, member.negated)?
            }
            _ => continue,
        };
        rows = with_value;
        values.push((expr, value));
    }
    let is_filter = matches!(plan, LogicalPlan::Filter(_));
    let rewritten = replace_expressions(&plan, &values, rows)?;
    Ok(Transformed::yes(match is_filter {
        true => LogicalPlanBuilder::from(rewritten).project(columns)?.build()?,
        false => rewritten,
    }))
}

/// Whether an expression is a subquery that is to be joined here.
fn pick(expr: &Expr, schema: &DFSchema) -> Pick {
    let has_join = match expr {
        Expr::ScalarSubquery(query) => has_scalar_join(query, schema),
        Expr::Exists(exists) => has_semi_join(&exists.subquery, schema) && !skips(&exists.subquery.subquery),
        Expr::InSubquery(InSubquery { subquery, .. }) => has_semi_join(subquery, schema),
        _ => return Pick::Descend,
    };
    if has_join { Pick::Skip } else { Pick::Take }
}

/// The rows with the value of a subquery, and its column. `input` has the outer rows as the subquery sees
/// them.
fn join_value(input: &LogicalPlan, rows: LogicalPlan, query: &LogicalPlan) -> Result<(LogicalPlan, Expr)> {
    let bindings = Bindings::of(input, query)?;
    let answers = bindings.evaluate(query)?;
    let name = fresh_name("scalar");
    // The columns of the bindings come first.
    let value = answers.schema().columns().into_iter().nth(bindings.width());
    let value = value.map(|column| Expr::Column(column).alias(&name));
    let answers =
        LogicalPlanBuilder::from(answers).project(bindings.keys().into_iter().chain(value))?.build()?;
    let kind = if is_total(query) { JoinType::Inner } else { JoinType::Left };
    Ok((bindings.join(rows, answers, kind, None)?, ident(name)))
}

/// The rows with a column that is null unless a subquery has rows, and the condition on it.
fn join_existence(
    input: &LogicalPlan,
    rows: LogicalPlan,
    query: &LogicalPlan,
    negated: bool,
) -> Result<(LogicalPlan, Expr)> {
    let bindings = Bindings::of(input, query)?;
    let name = fresh_name("exists");
    let found = lit(true).alias(&name);
    let answers = LogicalPlanBuilder::from(bindings.evaluate(query)?)
        .project(bindings.keys().into_iter().chain([found]))?
        .distinct()?
        .build()?;
    let rows = bindings.join(rows, answers, JoinType::Left, None)?;
    Ok((rows, if negated { is_null(ident(name)) } else { is_not_null(ident(name)) }))
}

/// `rows, lateral (query)`: joined with what the query gives for each of the rows.
fn join_lateral(join: Join) -> Result<Transformed<LogicalPlan>> {
    let outputs: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let is_supported = matches!(join.join_type, JoinType::Inner | JoinType::Left) && join.on.is_empty();
    // The planner does not mark a relation that reads the rows only inside a subquery.
    let reads = outer_columns(&join.right).iter().any(|column| join.left.schema().has_column(column));
    let query = without_mark(&join.right).or_else(|| reads.then(|| join.right.as_ref().clone()));
    let Some(query) = query.filter(|_| is_supported) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let rows = Arc::unwrap_or_clone(join.left);
    let bindings = Bindings::of(&rows, &query)?;
    let answers = bindings.evaluate(&query)?;
    let joined = bindings.join(rows, answers, join.join_type, join.filter)?;
    Ok(Transformed::yes(LogicalPlanBuilder::from(joined).project(outputs)?.build()?))
}

/// A lateral relation without the mark that it is one.
fn without_mark(plan: &LogicalPlan) -> Option<LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(Subquery { subquery, .. }) => Some(subquery.as_ref().clone()),
        LogicalPlan::SubqueryAlias(alias) => LogicalPlanBuilder::from(without_mark(&alias.input)?)
            .alias(alias.alias.clone())
            .ok()?
            .build()
            .ok(),
        _ => None,
    }
}

/// Whether DataFusion has a join for a scalar subquery: an aggregate of rows that equal something outside.
fn has_scalar_join(query: &Subquery, schema: &DFSchema) -> bool {
    let Some(all) = outer_columns_of(&query.subquery, schema) else { return false };
    if all.is_empty() {
        return true;
    }
    let mut plan = query.subquery.as_ref();
    while let LogicalPlan::Projection(projection) = plan
        && !projection.expr.iter().any(Expr::contains_outer)
    {
        plan = &projection.input;
    }
    let LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) = plan else { return false };
    let equal = |term: &Expr| comparison(term) == Some(Operator::Eq);
    group_expr.is_empty()
        && !aggr_expr.iter().any(Expr::contains_outer)
        && correlated_in_filters(input, equal)
}

/// Whether DataFusion has a semi join for a subquery: it compares with outer columns in filters only.
fn has_semi_join(query: &Subquery, schema: &DFSchema) -> bool {
    let Some(all) = outer_columns_of(&query.subquery, schema) else { return false };
    let rows = match query.subquery.as_ref() {
        LogicalPlan::Projection(p) if !p.expr.iter().any(Expr::contains_outer) => p.input.as_ref(),
        plan => plan,
    };
    all.is_empty() || correlated_in_filters(rows, orders)
}

/// The outer columns that a subquery reads, if all are of this schema and none is from farther out.
fn outer_columns_of(query: &LogicalPlan, schema: &DFSchema) -> Option<Vec<Column>> {
    let columns = outer_columns(query);
    columns.iter().all(|column| schema.has_column(column)).then_some(columns)
}

/// Whether only filters at the top of these rows read outer columns, in conditions that fit.
fn correlated_in_filters(mut rows: &LogicalPlan, fits: impl Fn(&Expr) -> bool) -> bool {
    while let LogicalPlan::Filter(filter) = rows {
        if split_conjunction(&filter.predicate).into_iter().any(|term| term.contains_outer() && !fits(term)) {
            return false;
        }
        rows = filter.input.as_ref();
    }
    outer_columns(rows).is_empty()
}

/// How a condition compares a column with an outer one, if it does nothing else.
fn comparison(condition: &Expr) -> Option<Operator> {
    let Expr::BinaryExpr(both) = condition else { return None };
    match (both.left.as_ref(), both.right.as_ref()) {
        (Expr::Column(_), Expr::OuterReferenceColumn(..))
        | (Expr::OuterReferenceColumn(..), Expr::Column(_)) => Some(both.op),
        _ => None,
    }
}

/// Whether a condition compares values that arithmetic computes of columns, inner and outer ones.
fn orders(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(both) => {
            use Operator::*;
            matches!(both.op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
                && is_arithmetic(&both.left)
                && is_arithmetic(&both.right)
        }
        Expr::Between(between) => {
            !between.negated
                && is_arithmetic(&between.expr)
                && is_arithmetic(&between.low)
                && is_arithmetic(&between.high)
        }
        _ => false,
    }
}

/// Whether an expression computes with columns and literals only.
fn is_arithmetic(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Literal(..) => true,
        Expr::BinaryExpr(both) => {
            matches!(both.op, Operator::Plus | Operator::Minus | Operator::Multiply)
                && is_arithmetic(&both.left)
                && is_arithmetic(&both.right)
        }
        Expr::Negative(inner) => is_arithmetic(inner),
        Expr::Cast(cast) => is_arithmetic(&cast.expr),
        _ => false,
    }
}

/// Whether a query skips rows, which DataFusion ignores in `exists`.
fn skips(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Projection(projection) => skips(&projection.input),
        LogicalPlan::Limit(limit) => {
            !matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)))
                || !matches!(limit.get_fetch_type(), Ok(FetchType::Literal(None | Some(1..))))
        }
        _ => false,
    }
}

/// Whether a query gives one row for every binding.
fn is_total(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Projection(projection) => is_total(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_total(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}
