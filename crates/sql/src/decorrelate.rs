//! Subqueries that read columns from outside, for which DataFusion's optimizer has no join.
//!
//! It has joins for those that compare columns with columns from outside in a filter right below what is selected, and for an
//! aggregate if they compare by `=`. All others are made joins here, with one rewriting (Neumann and Kemper 2015, §3): of the rows
//! outside only the different values of the columns that the subquery reads matter, its *bindings*. The subquery is
//! computed for all of them at once (`bindings`), and joined with the rows by these values. The same makes a join of
//! `lateral`.
//!
//! Invariant: every row from outside meets at most one row of what is joined to it for a subquery in an expression, so
//! the number of rows stays.

use crate::bindings::{Bindings, outside};
use crate::{fresh, membership};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr, FetchType, Join, LogicalPlan, LogicalPlanBuilder, Operator, SkipType, Subquery, ident,
    is_not_null, is_null, lit,
};
use std::sync::Arc;

/// The same plan, these subqueries as joins.
pub(crate) fn joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => node(plan),
        LogicalPlan::Join(join) => lateral(join),
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

/// A projection or a filter, with the subqueries in its expressions joined to its input.
fn node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let Some(input) = plan.inputs().first().map(|input| (*input).clone()) else {
        return Ok(Transformed::no(plan));
    };
    let found = subqueries(&plan, input.schema())?;
    if found.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut rows = input.clone();
    let mut values = Vec::new();
    for expr in found {
        let (with_value, value) = match &expr {
            Expr::ScalarSubquery(query) => value(&input, rows, &query.subquery)?,
            Expr::Exists(exists) => existence(&input, rows, &exists.subquery.subquery, exists.negated)?,
            Expr::InSubquery(member) => {
                let query = membership::matching(member.clone(), input.schema())?;
                existence(&input, rows, &query, member.negated)?
            }
            _ => continue,
        };
        rows = with_value;
        values.push((expr, value));
    }
    let names = NamePreserver::new(&plan);
    let exprs = plan.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        let replaced = expr.transform_down(|e| match values.iter().find(|(known, _)| *known == e) {
            Some((_, value)) => Ok(Transformed::new(value.clone(), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(e)),
        });
        Ok(name.restore(replaced?.data))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let filter = matches!(plan, LogicalPlan::Filter(_));
    let rewritten = plan.with_new_exprs(exprs, vec![rows])?;
    Ok(Transformed::yes(match filter {
        true => LogicalPlanBuilder::from(rewritten).project(columns)?.build()?,
        false => rewritten,
    }))
}

/// The different subqueries of a node that are to be joined here.
fn subqueries(plan: &LogicalPlan, schema: &DFSchema) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    for expr in plan.expressions() {
        expr.apply(|e| {
            let has_join = match e {
                Expr::ScalarSubquery(query) => compares_value(query, schema),
                Expr::Exists(exists) => {
                    compares(&exists.subquery, schema) && !skips(&exists.subquery.subquery)
                }
                Expr::InSubquery(InSubquery { subquery, .. }) => compares(subquery, schema),
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            if !has_join && !found.contains(e) {
                found.push(e.clone());
            }
            Ok(TreeNodeRecursion::Jump)
        })?;
    }
    Ok(found)
}

/// The rows with the value of a subquery, and where it is. `input` has the rows from outside as the subquery sees them.
fn value(input: &LogicalPlan, rows: LogicalPlan, query: &LogicalPlan) -> Result<(LogicalPlan, Expr)> {
    let bindings = Bindings::of(input, query)?;
    let answers = bindings.each(query)?;
    let name = fresh::name("scalar");
    // The columns of the bindings come first.
    let value = answers.schema().columns().into_iter().nth(bindings.width());
    let value = value.map(|column| Expr::Column(column).alias(&name));
    let answers =
        LogicalPlanBuilder::from(answers).project(bindings.keys().into_iter().chain(value))?.build()?;
    let kind = if is_total(query) { JoinType::Inner } else { JoinType::Left };
    Ok((bindings.meet(rows, answers, kind, None)?, ident(name)))
}

/// The rows with what tells whether a subquery has rows, and the condition that says so.
fn existence(
    input: &LogicalPlan,
    rows: LogicalPlan,
    query: &LogicalPlan,
    negated: bool,
) -> Result<(LogicalPlan, Expr)> {
    let bindings = Bindings::of(input, query)?;
    let name = fresh::name("exists");
    let found = lit(true).alias(&name);
    let answers = LogicalPlanBuilder::from(bindings.each(query)?)
        .project(bindings.keys().into_iter().chain([found]))?
        .distinct()?
        .build()?;
    let rows = bindings.meet(rows, answers, JoinType::Left, None)?;
    Ok((rows, if negated { is_null(ident(name)) } else { is_not_null(ident(name)) }))
}

/// `rows, lateral (query)`: joined with what the query gives for each of the rows.
fn lateral(join: Join) -> Result<Transformed<LogicalPlan>> {
    let wanted: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let plain = matches!(join.join_type, JoinType::Inner | JoinType::Left) && join.on.is_empty();
    // The planner does not mark one that reads the rows in a subquery only.
    let reads = outside(&join.right).iter().any(|column| join.left.schema().has_column(column));
    let query = taken(&join.right).or_else(|| reads.then(|| join.right.as_ref().clone()));
    let Some(query) = query.filter(|_| plain) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let rows = Arc::unwrap_or_clone(join.left);
    let bindings = Bindings::of(&rows, &query)?;
    let answers = bindings.each(&query)?;
    let joined = bindings.meet(rows, answers, join.join_type, join.filter)?;
    Ok(Transformed::yes(LogicalPlanBuilder::from(joined).project(wanted)?.build()?))
}

/// What a lateral relation is without the mark that it is one.
fn taken(plan: &LogicalPlan) -> Option<LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(Subquery { subquery, .. }) => Some(subquery.as_ref().clone()),
        LogicalPlan::SubqueryAlias(alias) => {
            LogicalPlanBuilder::from(taken(&alias.input)?).alias(alias.alias.clone()).ok()?.build().ok()
        }
        _ => None,
    }
}

/// Whether DataFusion has a join for a value: an aggregate of rows that are equal to something outside.
fn compares_value(query: &Subquery, schema: &DFSchema) -> bool {
    let Some(all) = known(&query.subquery, schema) else { return false };
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
    group_expr.is_empty() && !aggr_expr.iter().any(Expr::contains_outer) && filters(input, equal)
}

/// Whether DataFusion has a join for what is asked of the rows of a subquery: it compares with the outside in filters only.
fn compares(query: &Subquery, schema: &DFSchema) -> bool {
    let Some(all) = known(&query.subquery, schema) else { return false };
    let rows = match query.subquery.as_ref() {
        LogicalPlan::Projection(p) if !p.expr.iter().any(Expr::contains_outer) => p.input.as_ref(),
        plan => plan,
    };
    all.is_empty() || filters(rows, orders)
}

/// The columns from outside that a subquery reads, if it reads none from farther outside.
fn known(query: &LogicalPlan, schema: &DFSchema) -> Option<Vec<Column>> {
    let columns = outside(query);
    columns.iter().all(|column| schema.has_column(column)).then_some(columns)
}

/// Whether only filters at the top of these rows read columns from outside, in conditions that fit.
fn filters(mut rows: &LogicalPlan, fits: impl Fn(&Expr) -> bool) -> bool {
    while let LogicalPlan::Filter(filter) = rows {
        if split_conjunction(&filter.predicate).into_iter().any(|term| term.contains_outer() && !fits(term)) {
            return false;
        }
        rows = filter.input.as_ref();
    }
    outside(rows).is_empty()
}

/// How a condition compares a column with one from outside, if it is nothing else.
fn comparison(condition: &Expr) -> Option<Operator> {
    let Expr::BinaryExpr(both) = condition else { return None };
    match (both.left.as_ref(), both.right.as_ref()) {
        (Expr::Column(_), Expr::OuterReferenceColumn(..))
        | (Expr::OuterReferenceColumn(..), Expr::Column(_)) => Some(both.op),
        _ => None,
    }
}

/// Whether a condition orders what is computed of columns, here and outside, in no other way than by arithmetic.
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

/// Whether a query leaves out its first rows, which DataFusion forgets of `exists`.
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

/// Whether a query gives one row, whatever it reads from outside.
fn is_total(query: &LogicalPlan) -> bool {
    match query {
        LogicalPlan::Projection(projection) => is_total(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_total(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}
