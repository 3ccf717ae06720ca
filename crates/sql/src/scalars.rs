//! Correlated scalar subqueries that DataFusion's optimizer has no join for: those that compare with the outside
//! by anything but `=`.
//!
//! `(select count(*) from s where s.b < r.b)` over `r` becomes a join: all different `r.b`, joined with `s` by the
//! condition, aggregated by `r.b`, and joined with `r` again. Invariant: every row of `r` meets exactly one row of
//! the aggregate, so its own number and its other columns stay.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, ident, lit,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a row was joined with one of the subquery.
const FOUND: &str = "__found";

/// Makes the names of subqueries unique.
static SUBQUERIES: AtomicU64 = AtomicU64::new(0);

/// The same plan, these subqueries as joins.
pub(crate) fn joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => node(plan),
        _ => Ok(Transformed::no(plan)),
    })
    .data()
}

fn node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = Vec::new();
    for expr in plan.expressions() {
        expr.apply(|e| {
            if let Expr::ScalarSubquery(subquery) = e
                && let Some(shape) = Shape::of(subquery)
                && !found.iter().any(|(known, _)| known == e)
            {
                found.push((e.clone(), shape));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let inputs = plan.inputs();
    let ([input], false) = (inputs.as_slice(), found.is_empty()) else { return Ok(Transformed::no(plan)) };
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut input = (*input).clone();
    let mut values = Vec::new();
    for (expr, shape) in found {
        let value;
        (input, value) = shape.join(input)?;
        values.push((expr, value));
    }
    let names = NamePreserver::new(&plan);
    let exprs = plan.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        let replaced = expr.transform_up(|e| match values.iter().find(|(known, _)| *known == e) {
            Some((_, value)) => Ok(Transformed::yes(value.clone())),
            None => Ok(Transformed::no(e)),
        });
        Ok(name.restore(replaced?.data))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let filter = matches!(plan, LogicalPlan::Filter(_));
    let rewritten = plan.with_new_exprs(exprs, vec![input])?;
    Ok(Transformed::yes(match filter {
        true => LogicalPlanBuilder::from(rewritten).project(columns)?.build()?,
        false => rewritten,
    }))
}

/// `select … from s where …` with one aggregated row.
struct Shape {
    /// What is computed of the aggregates.
    value: Option<Expr>,
    aggregates: Vec<Expr>,
    /// The rows, without what is asked of them together with columns from outside.
    rows: LogicalPlan,
    /// What is asked of them together with columns from outside.
    conditions: Vec<Expr>,
    /// These columns.
    outside: Vec<Column>,
}

impl Shape {
    /// Takes a subquery apart, if it is one of those.
    fn of(subquery: &Subquery) -> Option<Shape> {
        let mut plan = subquery.subquery.as_ref();
        let mut value = None;
        if let LogicalPlan::Projection(projection) = plan {
            let [expr] = projection.expr.as_slice() else { return None };
            value = Some(expr.clone());
            plan = projection.input.as_ref();
        }
        let LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) = plan else {
            return None;
        };
        if !group_expr.is_empty() || value.iter().chain(aggr_expr).any(Expr::contains_outer) {
            return None;
        }
        let (mut rows, mut terms) = (input.as_ref(), Vec::new());
        while let LogicalPlan::Filter(filter) = rows {
            terms.extend(split_conjunction(&filter.predicate));
            rows = filter.input.as_ref();
        }
        if !rows.all_out_ref_exprs().is_empty() {
            return None;
        }
        let (conditions, local): (Vec<&Expr>, Vec<&Expr>) =
            terms.into_iter().partition(|t| t.contains_outer());
        if conditions.iter().all(|condition| by_equality(condition)) {
            return None;
        }
        let rows = match conjunction(local.into_iter().cloned()) {
            Some(local) => LogicalPlanBuilder::from(rows.clone()).filter(local).ok()?.build().ok()?,
            None => rows.clone(),
        };
        let conditions: Vec<Expr> = conditions.into_iter().cloned().collect();
        let outside = outside(&conditions);
        Some(Shape { value, aggregates: aggr_expr.clone(), rows, conditions, outside })
    }

    /// The input with the value of the subquery for each row, and the column that it is in.
    fn join(self, input: LogicalPlan) -> Result<(LogicalPlan, Expr)> {
        let name = format!("__scalar_{}", SUBQUERIES.fetch_add(1, Ordering::Relaxed));
        let mine = |i: usize| format!("{name}_{i}");
        let keys = self.outside.iter().enumerate().map(|(i, c)| Expr::Column(c.clone()).alias(mine(i)));
        let different =
            LogicalPlanBuilder::from(input.clone()).project(keys.collect::<Vec<_>>())?.distinct()?;
        let columns = self.rows.schema().columns().into_iter().map(Expr::Column);
        let found = format!("{name}{FOUND}");
        let rows = LogicalPlanBuilder::from(self.rows)
            .project(columns.chain([lit(true).alias(&found)]).collect::<Vec<_>>())?
            .build()?;
        let condition = conjunction(self.conditions).unwrap_or_else(|| lit(true));
        let condition = condition.transform_up(|e| match &e {
            Expr::OuterReferenceColumn(_, column) => {
                // Every column from outside was collected.
                let at = self.outside.iter().position(|known| known == column).unwrap_or_default();
                Ok(Transformed::yes(ident(mine(at))))
            }
            _ => Ok(Transformed::no(e)),
        })?;
        let paired = different.join_on(rows, JoinType::Left, [condition.data])?;
        let keys: Vec<Expr> = (0..self.outside.len()).map(|i| ident(mine(i))).collect();
        let counted = self.aggregates.iter().map(|expr| only(expr, &found)).collect::<Result<Vec<_>>>()?;
        let aggregated = paired.aggregate(keys.clone(), counted)?;
        let value = match self.value {
            Some(value) => value,
            None => Expr::Column(Column::from_name(self.aggregates[0].schema_name().to_string())),
        };
        let value_name = format!("{name}_value");
        let right = aggregated
            .project(keys.into_iter().chain([value.alias(&value_name)]).collect::<Vec<_>>())?
            .build()?;
        let value = ident(value_name);
        let left = LogicalPlanBuilder::from(input);
        let on: Vec<Column> = (0..self.outside.len()).map(|i| Column::from_name(mine(i))).collect();
        let equality = NullEquality::NullEqualsNull;
        let plan = left.join_detailed(right, JoinType::Inner, (self.outside, on), None, equality)?.build()?;
        Ok((plan, value))
    }
}

/// The aggregate of rows that were found, by its old name.
fn only(expr: &Expr, found: &str) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let changed = expr.clone().transform_up(|e| match e {
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            let found = ident(found);
            params.filter = Some(Box::new(match params.filter.take() {
                Some(filter) => found.and(*filter),
                None => found,
            }));
            Ok(Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params })))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(changed.data.alias(name))
}

/// `column = outside`, for which DataFusion has a join.
fn by_equality(condition: &Expr) -> bool {
    let Expr::BinaryExpr(both) = condition else { return false };
    let local = |expr: &Expr| !expr.contains_outer();
    both.op == Operator::Eq && (local(&both.left) != local(&both.right))
}

fn outside(conditions: &[Expr]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for condition in conditions {
        // The closure never fails.
        let _ = condition.apply(|e| {
            if let Expr::OuterReferenceColumn(_, column) = e
                && !columns.contains(column)
            {
                columns.push(column.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    columns
}
