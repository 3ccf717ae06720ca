//! Operands whose type is that of the other operand: texts beside numbers, and null beside dates and
//! intervals, as in PostgreSQL and DuckDB.
//!
//! ```sql
//! select x * '2' from t;                  -- x * cast('2' as bigint)
//! select timestamp '2024-01-01' + null;   -- null
//! select null || x from t;                -- null
//! ```

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Casts operands of arithmetic that have no type of their own.
#[derive(Debug)]
pub(crate) struct UntypedOperands;

impl ExprPlanner for UntypedOperands {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        let arithmetic = matches!(expr.op, B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo);
        let bitwise = matches!(expr.op, B::BitwiseAnd | B::BitwiseOr);
        if !arithmetic && !bitwise && expr.op != B::StringConcat {
            return Ok(PlannerResult::Original(expr));
        }
        // An unknown column is reported later, with its place.
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        if let Some(kind) = type_beside(&expr.left, &expr.op, &right) {
            expr.left = cast(expr.left, kind);
        } else if let Some(kind) = type_beside(&expr.right, &expr.op, &left) {
            expr.right = cast(expr.right, kind);
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// The type of an operand beside one of this type; none if it has a type of its own.
fn type_beside(operand: &Expr, operator: &BinaryOperator, other: &DataType) -> Option<DataType> {
    use DataType::{Date32, Date64, Float64, Interval, Timestamp};
    let Expr::Literal(value, _) = operand else { return None };
    match (value, operator, other) {
        (ScalarValue::Null, BinaryOperator::StringConcat, other) => {
            (other.is_numeric() || *other == DataType::Boolean).then_some(DataType::Utf8)
        }
        (_, BinaryOperator::StringConcat, _) => None,
        (ScalarValue::Utf8(Some(_)), _, other) if other.is_numeric() => Some(other.clone()),
        (ScalarValue::Null, BinaryOperator::Plus, Date32 | Date64 | Timestamp(..)) => {
            Some(Interval(IntervalUnit::MonthDayNano))
        }
        (ScalarValue::Null, BinaryOperator::Multiply, Interval(_)) => Some(Float64),
        _ => None,
    }
}
