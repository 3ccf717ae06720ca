//! `in (select …)` and `exists` where DataFusion's optimizer has no join for them.
//!
//! It makes semi, anti and mark joins of those in a filter. Rewritten here are:
//! - `x not in (q)` with a correlated `q`, or an `x` without columns: as `not exists` of a row of `q` that
//!   may equal `x`;
//! - both outside of a filter, and inside of one under anything but `and` and `or`, where null and false
//!   differ: as counts, which are scalar subqueries.
//!
//! ```sql
//! select * from t where x not in (select y from u where u.k = t.k);
//! -- not exists (select 1 from u where u.k = t.k and (y = t.x) is not false)
//! select x in (select y from u) from t;
//! -- case when (select count(*) from u where y = t.x) > 0 then true … else false end
//! ```

use super::expressions::{Pick, contains_membership, hoist_expressions, is_subquery};
use crate::columns::fresh_name;
use crate::tree::{transform_expr_up, transform_up_with_subqueries};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Projection, binary_expr, ident,
    is_not_false, is_null, lit, not_exists, scalar_subquery, when,
};
use std::sync::Arc;
use whimbrel_plan::properties;

/// The plan with memberships that the optimizer has joins for.
///
/// # Errors
/// `Plan` if a subquery cannot be counted.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up_with_subqueries(plan, &mut |plan| match plan {
        LogicalPlan::Filter(filter) => rewrite_filter(filter),
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => hoisted(plan),
        LogicalPlan::Projection(_) => as_counts(plan),
        _ => Ok(Transformed::no(plan)),
    })
}

/// An aggregate, a window or a sort, with its subqueries computed before it.
fn hoisted(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let wanted = |e: &Expr| if is_subquery(e) { Pick::Take } else { Pick::Descend };
    Ok(match hoist_expressions(&plan, &wanted, |input| as_counts(input).data())? {
        Some(hoisted) => Transformed::yes(hoisted),
        None => Transformed::no(plan),
    })
}

/// A filter, in which what no join computes becomes counts.
fn rewrite_filter(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    if !contains_membership(&filter.predicate) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let schema = filter.input.schema().clone();
    let terms = split_conjunction_owned(filter.predicate).into_iter();
    let terms = terms.map(|term| rewrite_conjunct(term, &schema)).collect::<Result<Vec<_>>>()?;
    let Some(predicate) = conjunction(terms) else {
        return Ok(Transformed::no(Arc::unwrap_or_clone(filter.input)));
    };
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
}

/// One of the conditions that all have to be true.
fn rewrite_conjunct(term: Expr, schema: &DFSchema) -> Result<Expr> {
    match term {
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(member) => {
                rewrite_conjunct(Expr::InSubquery(InSubquery { negated: !member.negated, ..member }), schema)
            }
            other => counts(Expr::Not(Box::new(other)), schema),
        },
        // The join for `not in` wants a column.
        Expr::InSubquery(member)
            if member.negated
                && (!member.subquery.outer_ref_columns.is_empty()
                    || member.expr.column_refs().is_empty()) =>
        {
            Ok(not_exists(Arc::new(matching_rows(member, schema)?)))
        }
        Expr::InSubquery(member) => Ok(Expr::InSubquery(with_unique_value(member)?)),
        Expr::Exists(found) => Ok(Expr::Exists(up_to_first(found)?)),
        other => rewrite_condition(other, schema),
    }
}

/// Under `and` and `or` null acts as false, so mark joins compute memberships.
fn rewrite_condition(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match expr {
        Expr::BinaryExpr(both) if matches!(both.op, Operator::And | Operator::Or) => Ok(binary_expr(
            rewrite_condition(*both.left, schema)?,
            both.op,
            rewrite_condition(*both.right, schema)?,
        )),
        Expr::InSubquery(member) if !member.negated => Ok(Expr::InSubquery(with_unique_value(member)?)),
        Expr::Exists(found) => Ok(Expr::Exists(up_to_first(found)?)),
        other => counts(other, schema),
    }
}

/// An existence that reads no more than one row. Not of a stream, which has no first row; nor of a correlated
/// subquery, which has one for each row outside.
fn up_to_first(found: Exists) -> Result<Exists> {
    let plan = found.subquery.subquery.as_ref();
    let is_table = properties(plan).is_ok_and(|properties| properties.time.is_none());
    if !is_table || !found.subquery.outer_ref_columns.is_empty() {
        return Ok(found);
    }
    let first = LogicalPlanBuilder::from(plan.clone()).limit(0, Some(1))?.build()?;
    Ok(Exists { subquery: found.subquery.with_plan(Arc::new(first)), ..found })
}

/// A value that is not a column of a table gets a unique name: the optimizer would take it for another
/// column.
fn with_unique_value(member: InSubquery) -> Result<InSubquery> {
    let plan = member.subquery.subquery.as_ref();
    if let LogicalPlan::Projection(Projection { expr, .. }) = plan
        && matches!(expr.as_slice(), [Expr::Column(Column { relation: Some(_), .. })])
    {
        return Ok(member);
    }
    let name = fresh_name("member");
    let value = Expr::from(plan.schema().qualified_field(0)).alias(name);
    let plan = LogicalPlanBuilder::from(plan.clone()).project([value])?.build()?;
    Ok(InSubquery { subquery: member.subquery.with_plan(Arc::new(plan)), ..member })
}

/// The rows of a subquery that make `in` true, which have the value; or that make `not in` not true, which
/// may have it.
///
/// # Errors
/// `Plan` if a column is not one of the schema.
pub(super) fn matching_rows(member: InSubquery, schema: &DFSchema) -> Result<LogicalPlan> {
    let (value, plan) = value(&member)?;
    let equal = value.eq(as_outer(&member.expr, schema)?);
    let matching = if member.negated { is_not_false(equal) } else { equal };
    LogicalPlanBuilder::from(filter(plan, matching)?).project([lit(1_i64)])?.build()
}

/// A node with its memberships as counts.
fn as_counts(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !plan.expressions().iter().any(contains_membership) {
        return Ok(Transformed::no(plan));
    }
    let inputs = plan.inputs();
    let Some(schema) = inputs.first().map(|input| input.schema().clone()) else {
        return Ok(Transformed::no(plan));
    };
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        if !contains_membership(&expr) {
            return Ok(Transformed::no(expr));
        }
        let name = names.save(&expr);
        Ok(Transformed::yes(name.restore(counts(expr, &schema)?)))
    })
}

/// Every membership and existence in an expression as counts.
fn counts(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    transform_expr_up(expr, &mut |expr| match expr {
        Expr::Exists(found) => {
            let found = up_to_first(found)?;
            let count = count(without_projection(Arc::unwrap_or_clone(found.subquery.subquery)), None)?;
            let op = if found.negated { Operator::Eq } else { Operator::Gt };
            Ok(Transformed::yes(binary_expr(count, op, lit(0_i64))))
        }
        Expr::InSubquery(member) => {
            let negated = member.negated;
            let membership = membership(&member, schema)?;
            Ok(Transformed::yes(if negated { Expr::Not(Box::new(membership)) } else { membership }))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// Whether a value is among those of a subquery: true, false, or null.
fn membership(member: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    let (value, plan) = value(member)?;
    let some = |condition: Option<Expr>| -> Result<Expr> {
        Ok(binary_expr(count(plan.clone(), condition)?, Operator::Gt, lit(0_i64)))
    };
    let unknown = || lit(ScalarValue::Boolean(None));
    let equal = value.clone().eq(as_outer(&member.expr, schema)?);
    let mut case = when(some(Some(equal))?, lit(true));
    if member.expr.nullable(schema)? {
        case = case.when(is_null(member.expr.as_ref().clone()).and(some(None)?), unknown());
    }
    if value.nullable(plan.schema())? {
        case = case.when(some(Some(is_null(value)))?, unknown());
    }
    case.otherwise(lit(false))
}

/// The rows without the projection, which keeps their number.
fn without_projection(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Projection(projection) => without_projection(Arc::unwrap_or_clone(projection.input)),
        other => other,
    }
}

/// The rows for which a condition is true, in one filter: the optimizer decorrelates one.
fn filter(plan: LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Filter(match plan {
        LogicalPlan::Filter(inner) => Filter::try_new(inner.predicate.and(condition), inner.input)?,
        other => Filter::try_new(condition, Arc::new(other))?,
    }))
}

/// `(select count(*) from q where …)`
fn count(plan: LogicalPlan, condition: Option<Expr>) -> Result<Expr> {
    let builder = LogicalPlanBuilder::from(match condition {
        Some(condition) => filter(plan, condition)?,
        None => plan,
    });
    let rows = AggregateFunction::new_udf(count_udaf(), vec![lit(1_i64)], false, None, vec![], None);
    let rows = Expr::AggregateFunction(rows);
    let name = rows.schema_name().to_string();
    let none: Vec<Expr> = vec![];
    let plan = builder.aggregate(none, vec![rows])?.project([ident(name)])?.build()?;
    Ok(scalar_subquery(Arc::new(plan)))
}

/// The value of a subquery, and the rows that it is in. The optimizer compares columns of these with outer
/// ones, so a computed value gets a name, and so does a column with the name of an outer one.
fn value(member: &InSubquery) -> Result<(Expr, LogicalPlan)> {
    let plan = member.subquery.subquery.as_ref();
    let hides = |rows: &LogicalPlan| member.expr.column_refs().iter().any(|c| rows.schema().has_column(c));
    // Correlated conditions have to stand in one filter with the comparison, with nothing above it.
    let is_correlated = !member.subquery.outer_ref_columns.is_empty();
    if let LogicalPlan::Projection(Projection { expr, input, .. }) = plan
        && let [value] = expr.as_slice()
        && (matches!(value.clone().unalias(), Expr::Column(_)) || is_correlated)
        && !hides(input)
    {
        return Ok((value.clone().unalias(), input.as_ref().clone()));
    }
    let name = fresh_name("member");
    let value = Expr::from(plan.schema().qualified_field(0)).alias(&name);
    Ok((ident(name), LogicalPlanBuilder::from(plan.clone()).project([value])?.build()?))
}

/// An expression as seen from inside a subquery.
fn as_outer(expr: &Expr, schema: &DFSchema) -> Result<Expr> {
    transform_expr_up(expr.clone(), &mut |expr| match expr {
        Expr::Column(column) => {
            let field = schema.field_from_column(&column)?.clone();
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}
