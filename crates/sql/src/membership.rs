//! `in (select …)` and `exists` where DataFusion's optimizer has no join for them.
//!
//! It makes semi, anti and mark joins of those in a filter. What is said here in words that it knows:
//! - `x not in (q)` with a `q` that knows columns from outside, or an `x` that knows none, as `not exists` of a row of `q`
//!   that is not known to differ from `x`;
//! - both outside of a filter, and inside of one under anything but `and` and `or`, where null and false are not
//!   the same: as counts, which are scalar subqueries.

use crate::fresh;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Projection, binary_expr, ident,
    is_not_false, is_null, lit, not_exists, scalar_subquery, when,
};
use std::sync::Arc;

/// The same plan, in words that the optimizer has joins for.
pub(crate) fn plain(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Filter(filter) => filtered(filter),
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => separated(plan),
        LogicalPlan::Projection(_) => computed(plan),
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

/// In an aggregate, a window and an order: subqueries are computed before it, as columns.
fn separated(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found: Vec<Expr> = Vec::new();
    for expr in plan.expressions() {
        expr.apply(|e| match e {
            Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_) => {
                if !found.contains(e) {
                    found.push(e.clone());
                }
                Ok(TreeNodeRecursion::Jump)
            }
            _ => Ok(TreeNodeRecursion::Continue),
        })?;
    }
    let inputs = plan.inputs();
    let ([input], false) = (inputs.as_slice(), found.is_empty()) else { return Ok(Transformed::no(plan)) };
    let called: Vec<String> = found.iter().map(|_| fresh::name("asked")).collect();
    let asked = found.iter().zip(&called).map(|(expr, name)| expr.clone().alias(name));
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let before =
        LogicalPlanBuilder::from((*input).clone()).project(columns.chain(asked).collect::<Vec<_>>())?;
    let before = computed(before.build()?)?.data;
    let names = NamePreserver::new(&plan);
    let exprs = plan.expressions().into_iter().map(|expr| {
        let saved = names.save(&expr);
        let replaced = expr.transform_down(|e| match found.iter().position(|known| *known == e) {
            Some(i) => Ok(Transformed::new(ident(&called[i]), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(e)),
        });
        Ok(saved.restore(replaced?.data))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let wanted: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let rewritten = LogicalPlanBuilder::from(plan.with_new_exprs(exprs, vec![before])?);
    Ok(Transformed::yes(rewritten.project(wanted)?.build()?))
}

/// In a filter: what joins cannot say.
fn filtered(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    if !asks(&filter.predicate) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let schema = filter.input.schema().clone();
    let terms = split_conjunction_owned(filter.predicate).into_iter();
    let terms = terms.map(|term| term_of(term, &schema)).collect::<Result<Vec<_>>>()?;
    let Some(predicate) = conjunction(terms) else {
        return Ok(Transformed::no(Arc::unwrap_or_clone(filter.input)));
    };
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
}

/// One of the conditions that all have to be true.
fn term_of(term: Expr, schema: &DFSchema) -> Result<Expr> {
    match term {
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(member) => {
                term_of(Expr::InSubquery(InSubquery { negated: !member.negated, ..member }), schema)
            }
            other => counts(Expr::Not(Box::new(other)), schema),
        },
        // The join for `not in` wants a column.
        Expr::InSubquery(member)
            if member.negated
                && (!member.subquery.outer_ref_columns.is_empty()
                    || member.expr.column_refs().is_empty()) =>
        {
            Ok(not_exists(Arc::new(matching(member, schema)?)))
        }
        Expr::InSubquery(member) => Ok(Expr::InSubquery(named(member)?)),
        Expr::Exists(_) => Ok(term),
        other => positive(other, schema),
    }
}

/// Under `and` and `or` a null is as good as a false, and mark joins say what is to be said.
fn positive(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match expr {
        Expr::BinaryExpr(both) if matches!(both.op, Operator::And | Operator::Or) => {
            Ok(binary_expr(positive(*both.left, schema)?, both.op, positive(*both.right, schema)?))
        }
        Expr::InSubquery(member) if !member.negated => Ok(Expr::InSubquery(named(member)?)),
        Expr::Exists(_) => Ok(expr),
        other => counts(other, schema),
    }
}

/// With a name of its own for a value that is not a column of a table: the optimizer takes it for another one.
fn named(member: InSubquery) -> Result<InSubquery> {
    let plan = member.subquery.subquery.as_ref();
    if let LogicalPlan::Projection(Projection { expr, .. }) = plan
        && matches!(expr.as_slice(), [Expr::Column(Column { relation: Some(_), .. })])
    {
        return Ok(member);
    }
    let name = fresh::name("member");
    let value = Expr::from(plan.schema().qualified_field(0)).alias(name);
    let plan = LogicalPlanBuilder::from(plan.clone()).project([value])?.build()?;
    Ok(InSubquery { subquery: member.subquery.with_plan(Arc::new(plan)), ..member })
}

/// The rows of a subquery that speak for `in`: that have the value; or against `not in`: that are not known not to have it.
pub(crate) fn matching(member: InSubquery, schema: &DFSchema) -> Result<LogicalPlan> {
    let (value, plan) = value(&member)?;
    let equal = value.eq(from_outside(&member.expr, schema)?);
    let matching = if member.negated { is_not_false(equal) } else { equal };
    LogicalPlanBuilder::from(filter(plan, matching)?).project([lit(1_i64)])?.build()
}

/// Where a value is computed: its parts as counts.
fn computed(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let has = |expr: &Expr| {
        expr.exists(|e| Ok(matches!(e, Expr::InSubquery(_) | Expr::Exists(_)))).unwrap_or(false)
    };
    if !plan.expressions().iter().any(has) {
        return Ok(Transformed::no(plan));
    }
    let inputs = plan.inputs();
    let Some(schema) = inputs.first().map(|input| input.schema().clone()) else {
        return Ok(Transformed::no(plan));
    };
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        if !asks(&expr) {
            return Ok(Transformed::no(expr));
        }
        let name = names.save(&expr);
        Ok(Transformed::yes(name.restore(counts(expr, &schema)?)))
    })
}

/// Whether there is a membership or an existence in an expression.
fn asks(expr: &Expr) -> bool {
    // The closure never fails.
    expr.exists(|e| Ok(matches!(e, Expr::InSubquery(_) | Expr::Exists(_)))).unwrap_or(false)
}

/// Every membership and existence in an expression as counts.
fn counts(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|expr| match expr {
        Expr::Exists(found) => {
            let count = count(rows(Arc::unwrap_or_clone(found.subquery.subquery)), None)?;
            let op = if found.negated { Operator::Eq } else { Operator::Gt };
            Ok(Transformed::yes(binary_expr(count, op, lit(0_i64))))
        }
        Expr::InSubquery(member) => {
            let negated = member.negated;
            let truth = truth(&member, schema)?;
            Ok(Transformed::yes(if negated { Expr::Not(Box::new(truth)) } else { truth }))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// Whether a value is among those of a subquery: true, false, or null.
fn truth(member: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    let (value, plan) = value(member)?;
    let some = |condition: Option<Expr>| -> Result<Expr> {
        Ok(binary_expr(count(plan.clone(), condition)?, Operator::Gt, lit(0_i64)))
    };
    let unknown = || lit(ScalarValue::Boolean(None));
    let equal = value.clone().eq(from_outside(&member.expr, schema)?);
    let mut case = when(some(Some(equal))?, lit(true));
    if member.expr.nullable(schema)? {
        case = case.when(is_null(member.expr.as_ref().clone()).and(some(None)?), unknown());
    }
    if value.nullable(plan.schema())? {
        case = case.when(some(Some(is_null(value)))?, unknown());
    }
    case.otherwise(lit(false))
}

/// Without the columns that it gives: there are as many rows without.
fn rows(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::Projection(projection) => rows(Arc::unwrap_or_clone(projection.input)),
        other => other,
    }
}

/// The rows for which a condition is true, in one filter: the optimizer takes columns from outside from one.
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

/// The value that a subquery gives, and the rows that it is in. The optimizer compares columns of these with those outside;
/// so what is computed gets a name, and so does a column by the name of one outside, which it would take the one for.
fn value(member: &InSubquery) -> Result<(Expr, LogicalPlan)> {
    let plan = member.subquery.subquery.as_ref();
    let hides = |rows: &LogicalPlan| member.expr.column_refs().iter().any(|c| rows.schema().has_column(c));
    // Conditions on columns from outside are to stand in one filter with the comparison, under nothing.
    let knows_outside = !member.subquery.outer_ref_columns.is_empty();
    if let LogicalPlan::Projection(Projection { expr, input, .. }) = plan
        && let [value] = expr.as_slice()
        && (matches!(value.clone().unalias(), Expr::Column(_)) || knows_outside)
        && !hides(input)
    {
        return Ok((value.clone().unalias(), input.as_ref().clone()));
    }
    let name = fresh::name("member");
    let value = Expr::from(plan.schema().qualified_field(0)).alias(&name);
    Ok((ident(name), LogicalPlanBuilder::from(plan.clone()).project([value])?.build()?))
}

/// An expression as seen from inside of a subquery.
fn from_outside(expr: &Expr, schema: &DFSchema) -> Result<Expr> {
    expr.clone()
        .transform_up(|expr| match expr {
            Expr::Column(column) => {
                let field = schema.field_from_column(&column)?.clone();
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
}
