//! `limit (select …)` and `offset (select …)`: DataFusion's limit takes numbers only. The rows are numbered
//! in their order, and filtered by their numbers. As in DuckDB, null is no limit.
//!
//! ```sql
//! select x from t order by x limit (select n from settings);
//! -- select x from (select x, row_number() over (order by x) as r from t)
//! -- where r <= (select n from settings)
//! ```

use super::expressions::contains_subquery;
use crate::columns::fresh_name;
use crate::tree::transform_up_with_subqueries;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, SortExpr, WindowFunctionDefinition, cast,
    ident, lit,
};
use std::sync::Arc;

/// The plan with such limits as filters.
///
/// # Errors
/// `Plan` if the rows cannot be numbered.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up_with_subqueries(plan, &mut |plan| match plan {
        LogicalPlan::Limit(limit)
            if limit.skip.iter().chain(&limit.fetch).any(|count| contains_subquery(count)) =>
        {
            Ok(Transformed::yes(filtered_by_number(limit)?))
        }
        plan => Ok(Transformed::no(plan)),
    })
}

/// The rows numbered in their order, and filtered by their numbers.
fn filtered_by_number(Limit { skip, fetch, input }: Limit) -> Result<LogicalPlan> {
    let (rows, order, columns) = without_order(Arc::unwrap_or_clone(input));
    let number = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![]);
    let number = match order.is_empty() {
        true => Expr::from(number),
        false => Expr::from(number).order_by(order).build()?,
    };
    let name = fresh_name("row");
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

/// A number of rows; `otherwise` if it is not given or null.
fn count(given: Option<Box<Expr>>, otherwise: i64) -> Expr {
    match given {
        Some(count) => coalesce(vec![cast(*count, DataType::Int64), lit(otherwise)]),
        None => lit(otherwise),
    }
}

/// The rows without their order, the order, and the columns that are selected of the rows.
fn without_order(plan: LogicalPlan) -> (LogicalPlan, Vec<SortExpr>, Vec<Expr>) {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
            let columns = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
            (Arc::unwrap_or_clone(sort.input), sort.expr, columns)
        }
        // The projection drops columns that the rows are only ordered by.
        LogicalPlan::Projection(projection) if matches!(*projection.input, LogicalPlan::Sort(_)) => {
            let (rows, order, _) = without_order(Arc::unwrap_or_clone(projection.input));
            (rows, order, projection.expr)
        }
        plan => {
            let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
            (plan, vec![], columns)
        }
    }
}
