//! Equality of plans up to the names of their scans and the nesting of `and` and `or`.
//!
//! The name of a scan is unique in the process: a plan that reads one table twice differs from a plan that
//! reads two tables. A program that runs again creates new scans. Two scans are equal if they have the same
//! position in the plan and their sources have the same description.

use crate::depth::chain;
use crate::source::{given_name, given_of, source_of};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result, TableReference, internal_err};
use datafusion::logical_expr::utils::split_binary_owned;
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, Operator, Projection, RecursiveQuery, TableScan,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Whether two plans are equal, up to the names of scans and the nesting of `and` and `or`.
///
/// # Errors
/// `Internal` if a plan cannot be normalized.
pub(super) fn equal_plans(left: &LogicalPlan, right: &LogicalPlan) -> Result<bool> {
    Ok(normalized(left)? == normalized(right)?)
}

/// The plan with scans numbered in order, and chains nested as the fluent builder nests them.
fn normalized(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    plan.clone()
        .transform_up(|plan| {
            let plan = plan.map_expressions(|expr| expr.transform_down(normalized_chain))?.data;
            Ok(match plan {
                LogicalPlan::TableScan(scan) => {
                    Transformed::yes(LogicalPlan::TableScan(numbered_scan(scan, &mut numbers)?))
                }
                LogicalPlan::Projection(projection) => match projection.input.as_ref() {
                    LogicalPlan::TableScan(scan) => {
                        let scan = scan.table_name.clone();
                        Transformed::yes(LogicalPlan::Projection(requalified(projection, &scan)?))
                    }
                    _ => Transformed::no(LogicalPlan::Projection(projection)),
                },
                LogicalPlan::RecursiveQuery(query) => {
                    let name = given_of(&query.name).to_string();
                    Transformed::yes(LogicalPlan::RecursiveQuery(RecursiveQuery { name, ..query }))
                }
                other => Transformed::no(other),
            })
        })
        .data()
}

/// A chain of `and` or `or`, nested in a way that depends on its operands only.
fn normalized_chain(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) = expr else {
        return Ok(Transformed::no(expr));
    };
    match chain(op, split_binary_owned(expr, op)) {
        Some(chain) => Ok(Transformed::yes(chain)),
        None => internal_err!("a chain has two operands at least"),
    }
}

/// The scan under its name, number and description: `clicks 2: path/of/clicks.parquet`.
fn numbered_scan(mut scan: TableScan, numbers: &mut HashMap<String, usize>) -> Result<TableScan> {
    let next = numbers.len();
    let number = *numbers.entry(scan.table_name.to_string()).or_insert(next);
    let description = source_of(&scan).map(|source| source.describe()).unwrap_or_default();
    let name = TableReference::bare(format!("{} {number}: {description}", given_name(&scan)));
    scan.projected_schema =
        Arc::new(DFSchema::try_from_qualified_schema(name.clone(), scan.projected_schema.as_arrow())?);
    scan.table_name = name;
    Ok(scan)
}

/// The projection directly above a scan, with its columns qualified by the new name of the scan.
fn requalified(projection: Projection, scan: &TableReference) -> Result<Projection> {
    let renamed = |e: Expr| match e {
        Expr::Column(c) if c.relation.is_some() => {
            Ok(Transformed::yes(Expr::Column(Column::new(Some(scan.clone()), c.name))))
        }
        other => Ok(Transformed::no(other)),
    };
    let exprs = projection.expr.into_iter().map(|e| e.transform_up(renamed).data()).collect::<Result<_>>()?;
    Projection::try_new_with_schema(exprs, projection.input, projection.schema)
}
