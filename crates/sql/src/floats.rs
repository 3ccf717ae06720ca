//! A float of four bytes beside a decimal: `f = 93.86` compares floats of four bytes, as in DuckDB. DataFusion would compare
//! floats of eight bytes, among which the one that is nearest to 93.86 has no equal.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast};

/// The same plan, its comparisons between such values.
pub(crate) fn compared(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_up(|e| comparison(e, &schema))?.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

fn comparison(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
            let [left, right] = floats([*left, *right], schema);
            Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let [value, low, high] = floats([*expr, *low, *high], schema);
            Transformed::yes(Expr::Between(Between::new(
                Box::new(value),
                negated,
                Box::new(low),
                Box::new(high),
            )))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let mut values = std::iter::once(*expr).chain(list).collect::<Vec<_>>();
            if is_float(&values[0], schema) {
                values = values.into_iter().map(|value| narrowed(value, schema)).collect();
            }
            let value = values.remove(0);
            Transformed::yes(Expr::InList(InList::new(Box::new(value), values, negated)))
        }
        other => Transformed::no(other),
    })
}

/// The decimals among these as floats, if all others are.
fn floats<const N: usize>(values: [Expr; N], schema: &DFSchema) -> [Expr; N] {
    let all = values.iter().all(|value| is_float(value, schema) || is_decimal(value, schema));
    match all && values.iter().any(|value| is_float(value, schema)) {
        true => values.map(|value| narrowed(value, schema)),
        false => values,
    }
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn narrowed(value: Expr, schema: &DFSchema) -> Expr {
    if is_decimal(&value, schema) { cast(value, DataType::Float32) } else { value }
}

fn is_float(value: &Expr, schema: &DFSchema) -> bool {
    value.get_type(schema).is_ok_and(|kind| kind == DataType::Float32)
}

fn is_decimal(value: &Expr, schema: &DFSchema) -> bool {
    value.get_type(schema).is_ok_and(|kind| kind.is_decimal())
}
