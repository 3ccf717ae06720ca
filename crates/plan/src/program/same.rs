//! Whether two plans are the same, whatever their scans are called and however chains of `and` and `or` are
//! nested.
//!
//! A scan has a name that is unique in the process, so that a plan that reads a table twice is not mistaken
//! for one that reads two. A program that is run again makes new scans; they are the same if they are in the
//! same places and read what is described in the same words.

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

/// Whether the plans differ in nothing but the names of scans and the parentheses in chains of `and` and
/// `or`.
pub(super) fn same(one: &LogicalPlan, other: &LogicalPlan) -> Result<bool> {
    Ok(canonical(one)? == canonical(other)?)
}

/// The plan with scans that are numbered in their order, and chains as the fluent program nests them.
fn canonical(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    plan.clone()
        .transform_up(|plan| {
            let plan = plan.map_expressions(|expr| expr.transform_down(chained))?.data;
            Ok(match plan {
                LogicalPlan::TableScan(scan) => {
                    Transformed::yes(LogicalPlan::TableScan(numbered(scan, &mut numbers)?))
                }
                LogicalPlan::Projection(projection) => match projection.input.as_ref() {
                    LogicalPlan::TableScan(scan) => {
                        let scan = scan.table_name.clone();
                        Transformed::yes(LogicalPlan::Projection(over(projection, &scan)?))
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

/// A chain of `and` or of `or`, nested by its operands alone.
fn chained(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) = expr else {
        return Ok(Transformed::no(expr));
    };
    match chain(op, split_binary_owned(expr, op)) {
        Some(chain) => Ok(Transformed::yes(chain)),
        None => internal_err!("a chain has two operands at least"),
    }
}

/// `clicks 2: path/of/clicks.parquet`.
fn numbered(mut scan: TableScan, numbers: &mut HashMap<String, usize>) -> Result<TableScan> {
    let next = numbers.len();
    let number = *numbers.entry(scan.table_name.to_string()).or_insert(next);
    let what = source_of(&scan).map(|source| source.describe()).unwrap_or_default();
    let name = TableReference::bare(format!("{} {number}: {what}", given_name(&scan)));
    scan.projected_schema =
        Arc::new(DFSchema::try_from_qualified_schema(name.clone(), scan.projected_schema.as_arrow())?);
    scan.table_name = name;
    Ok(scan)
}

/// The projection right over a scan, which takes its qualifiers off.
fn over(projection: Projection, scan: &TableReference) -> Result<Projection> {
    let renamed = |e: Expr| match e {
        Expr::Column(c) if c.relation.is_some() => {
            Ok(Transformed::yes(Expr::Column(Column::new(Some(scan.clone()), c.name))))
        }
        other => Ok(Transformed::no(other)),
    };
    let exprs = projection.expr.into_iter().map(|e| e.transform_up(renamed).data()).collect::<Result<_>>()?;
    Projection::try_new_with_schema(exprs, projection.input, projection.schema)
}
