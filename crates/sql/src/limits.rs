//! `limit (select …)`, `offset (select …)`: how many rows there are is a value of another query, which DataFusion has no step
//! for. The rows are numbered in their order, and a condition on the numbers says which are meant. As in DuckDB, null is no limit.

use crate::{fresh, single};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, plan_err};
use datafusion::execution::SessionState;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, SortExpr, WindowFunctionDefinition, cast,
    ident, lit,
};
use std::sync::Arc;

/// The same plan, such limits as conditions.
pub(crate) fn by_number(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Limit(limit)
            if limit.skip.iter().chain(&limit.fetch).any(|count| single::asks(count)) =>
        {
            Ok(Transformed::yes(numbered(state, limit)?))
        }
        plan => Ok(Transformed::no(plan)),
    })
    .data()
}

fn numbered(state: &SessionState, Limit { skip, fetch, input }: Limit) -> Result<LogicalPlan> {
    let Some(row_number) = state.window_functions().get("row_number") else {
        return plan_err!("there is no function row_number");
    };
    let (rows, order, columns) = ordered(Arc::unwrap_or_clone(input));
    let number = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number.clone()), vec![]);
    let number = match order.is_empty() {
        true => Expr::from(number),
        false => Expr::from(number).order_by(order).build()?,
    };
    let name = fresh::name("row");
    let windowed = LogicalPlanBuilder::from(rows.clone()).window([number])?;
    // The number is the last column of a window.
    let last = windowed.schema().columns().pop();
    let last = last.map(|column| cast(Expr::Column(column), DataType::Int64).alias(&name));
    let kept = rows.schema().columns().into_iter().map(Expr::Column);
    let (at, first) = (ident(&name), count(skip, 0));
    windowed
        .project(kept.chain(last))?
        .filter((at.clone() - first).between(lit(1_i64), count(fetch, i64::MAX)))?
        .sort([at.sort(true, false)])?
        .project(columns)?
        .build()
}

fn count(given: Option<Box<Expr>>, otherwise: i64) -> Expr {
    match given {
        Some(count) => coalesce(vec![cast(*count, DataType::Int64), lit(otherwise)]),
        None => lit(otherwise),
    }
}

/// The rows without their order; the order, if they have one; and the columns that are wanted of them.
fn ordered(plan: LogicalPlan) -> (LogicalPlan, Vec<SortExpr>, Vec<Expr>) {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
            let columns = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
            (Arc::unwrap_or_clone(sort.input), sort.expr, columns)
        }
        // Columns that rows are only ordered by are taken away after that.
        LogicalPlan::Projection(projection) if matches!(*projection.input, LogicalPlan::Sort(_)) => {
            let (rows, order, _) = ordered(Arc::unwrap_or_clone(projection.input));
            (rows, order, projection.expr)
        }
        plan => {
            let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
            (plan, vec![], columns)
        }
    }
}
