//! What rows are ordered by, where DataFusion's optimizer takes orders only in one form.
//!
//! - `distinct on` becomes an aggregate, in whose order and keys an expression stands once.
//! - An order by a value of no column (`random()`) is computed before the sort: below a count the sort would
//!   be left without a column, and so without a number of rows.
//!
//! ```sql
//! select distinct on (k) x from t order by k, k desc, x;  -- order by k, x
//! select count(*) from (select x from t order by random() limit 5);
//! -- … (select x from (select x, random() as value from t) order by value limit 5)
//! ```

use super::expressions::{Pick, hoist_expressions};
use crate::tree::{any_expr, is_same_expr, transform_up_with_subqueries};
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, LogicalPlan};

/// The plan with orders that the optimizer takes.
///
/// # Errors
/// `Plan` if a projection cannot be built.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    transform_up_with_subqueries(plan, &mut |plan| match plan {
        LogicalPlan::Distinct(Distinct::On(on)) => {
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(without_repeated(on)))))
        }
        LogicalPlan::Sort(_) => Ok(match hoist_expressions(&plan, &of_no_column, Ok)? {
            Some(hoisted) => Transformed::yes(hoisted),
            None => Transformed::no(plan),
        }),
        plan => Ok(Transformed::no(plan)),
    })
}

/// Each key and each expression of the order once.
fn without_repeated(on: DistinctOn) -> DistinctOn {
    let mut keys: Vec<Expr> = vec![];
    let mut on_expr = on.on_expr;
    on_expr.retain(|expr| is_new(&mut keys, expr));
    let mut ordered: Vec<Expr> = vec![];
    let mut sort_expr = on.sort_expr;
    if let Some(order) = &mut sort_expr {
        order.retain(|by| is_new(&mut ordered, &by.expr));
    }
    DistinctOn { on_expr, sort_expr, ..on }
}

/// Whether an expression is not one of these; it is from now on.
fn is_new(seen: &mut Vec<Expr>, expr: &Expr) -> bool {
    let new = !seen.iter().any(|known| is_same_expr(known, expr));
    if new {
        seen.push(expr.clone());
    }
    new
}

/// Picks a value that differs from row to row, though it is of no column.
fn of_no_column(expr: &Expr) -> Pick {
    let reads = any_expr(expr, &mut |e| matches!(e, Expr::Column(_) | Expr::OuterReferenceColumn(..)));
    match expr.is_volatile() && !reads {
        true => Pick::Take,
        false => Pick::Descend,
    }
}
