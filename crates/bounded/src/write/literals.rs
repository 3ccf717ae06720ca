//! Literals that a statement stores: what a column cannot hold is refused when the statement is compiled.

use crate::error::{Error, Result};
use crate::expression::evaluate;
use crate::schema::{Column, Table};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, Values};

/// Refuses literals that their columns cannot hold, in the rows of an insert or the new values of an update.
///
/// # Errors
/// `Invalid` with the column, the value and the type.
pub(super) fn check_literals(table: &Table, input: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Projection(projection) = input else { return Ok(()) };
    for (column, expr) in table.columns.iter().zip(&projection.expr) {
        match projection.input.as_ref() {
            LogicalPlan::Values(values) => {
                for row in &values.values {
                    check(table, column, &of_row(expr, values, row)?)?;
                }
            }
            _ => check(table, column, expr)?,
        }
    }
    Ok(())
}

/// The expression with the values of one row in place of its columns.
fn of_row(expr: &Expr, values: &Values, row: &[Expr]) -> Result<Expr> {
    let value = |expr: &Expr| match expr {
        Expr::Column(column) => {
            values.schema.maybe_index_of_column(column).and_then(|at| row.get(at)).cloned()
        }
        _ => None,
    };
    Ok(expr
        .clone()
        .transform_up(|expr| Ok(value(&expr).map_or(Transformed::no(expr), Transformed::yes)))?
        .data)
}

/// Refuses an expression that is a literal, cast to what it is not.
fn check(table: &Table, column: &Column, expr: &Expr) -> Result<()> {
    let Some(value) = literal(expr) else { return Ok(()) };
    if evaluate(expr).is_ok() {
        return Ok(());
    }
    let (of, name) = (column.of.sql_name(), format!("{}.{}", table.name, column.name));
    Err(Error::invalid(match value {
        ScalarValue::Utf8(Some(text)) => format!("'{text}' cannot be read as {of} for column {name}"),
        value => format!("{value} is not in the range of {of} for column {name}"),
    }))
}

/// The literal within casts.
fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Cast(cast) => literal(&cast.expr),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}
