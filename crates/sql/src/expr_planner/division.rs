//! Division of decimals gives a float, as in DuckDB: a decimal would have four digits more than its dividend,
//! too few for `sum(x) * 1.0 / count(*)`. `a // b` is `a / b`, which is integer division of integers here.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans `/` where one operand is a decimal.
#[derive(Debug)]
pub(crate) struct Division;

impl ExprPlanner for Division {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op == BinaryOperator::DuckIntegerDivide {
            expr.op = BinaryOperator::Divide;
        }
        let decimal = |side: &Expr| side.get_type(schema).is_ok_and(|kind| kind.is_decimal());
        let length =
            |side: &Expr| side.get_type(schema).is_ok_and(|kind| matches!(kind, DataType::Interval(_)));
        if expr.op == BinaryOperator::Divide
            && (decimal(&expr.left) || decimal(&expr.right))
            && !length(&expr.left)
        {
            expr.left = cast(expr.left, DataType::Float64);
            expr.right = cast(expr.right, DataType::Float64);
            return Ok(PlannerResult::Planned(expr.left / expr.right));
        }
        Ok(PlannerResult::Original(expr))
    }
}
