//! Columns and equalities in expressions, and their substitution.

use super::error::CompileError;
use crate::error::Error;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, SortExpr};
use std::collections::BTreeSet;

/// The column of a relation. Its name is not parsed, so `Post` and `a.b` are valid names.
pub(super) fn of_relation(alias: &str, name: &str) -> Column {
    Column::new(Some(TableReference::bare(alias)), name)
}

/// The column of a relation, as an expression.
pub(super) fn column(alias: &str, name: &str) -> Expr {
    Expr::Column(of_relation(alias, name))
}

/// The expression with another alias for one relation.
pub(super) fn requalify(expr: Expr, old: &str, new: &str) -> Result<Expr, CompileError> {
    let renamed = expr.transform(|expr| {
        Ok(match expr {
            Expr::Column(c) if c.relation.as_ref().is_some_and(|r| r.table() == old) => {
                Transformed::yes(column(new, &c.name))
            }
            other => Transformed::no(other),
        })
    });
    Ok(renamed.map_err(Error::from)?.data)
}

/// The expression with the columns of a schema replaced by expressions.
pub(super) fn substitute(expr: &Expr, schema: &DFSchema, columns: &[Expr]) -> Result<Expr, CompileError> {
    let replaced = expr.clone().transform(|expr| {
        Ok(match &expr {
            Expr::Column(c) => Transformed::yes(columns[schema.index_of_column(c)?].clone()),
            Expr::Alias(alias) => Transformed::yes(alias.expr.as_ref().clone()),
            _ => Transformed::no(expr),
        })
    });
    Ok(replaced.map_err(Error::from)?.data)
}

/// The sides of an equality.
pub(super) fn equality(expr: &Expr) -> Option<(&Expr, &Expr)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => Some((left, right)),
        _ => None,
    }
}

/// The order with the columns of a plan replaced by expressions.
pub(super) fn substitute_order(
    order: &[SortExpr],
    plan: &LogicalPlan,
    outputs: &[Expr],
) -> std::result::Result<Vec<SortExpr>, CompileError> {
    let keys = order
        .iter()
        .map(|key| Ok(SortExpr { expr: substitute(&key.expr, plan.schema(), outputs)?, ..key.clone() }));
    keys.collect()
}

/// The relations of the columns in an expression.
pub(super) fn relations(expr: &Expr) -> BTreeSet<String> {
    columns(expr).into_iter().filter_map(|column| column.relation.map(|r| r.table().to_string())).collect()
}

/// The columns in an expression.
pub(super) fn columns(expr: &Expr) -> Vec<Column> {
    let mut found = Vec::new();
    // The closure does not fail.
    let _ = expr.apply(|expr| {
        if let Expr::Column(column) = expr {
            found.push(column.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}
