//! Arithmetic with lengths of time that DataFusion does not have: `interval '1 day' * 2`, `interval '1 day' / 2`; and a date plus a length that is
//! not of whole days is a timestamp, as in DuckDB and PostgreSQL: the date alone would lose the hours.

use crate::functions::{parts, times};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans products of lengths, and sums of dates and lengths.
#[derive(Debug)]
pub(crate) struct IntervalArithmetic;

impl ExprPlanner for IntervalArithmetic {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        // A column that is not there is told with its place, later.
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let date = |kind: &DataType| matches!(kind, DataType::Date32 | DataType::Date64);
        let length = |kind: &DataType| matches!(kind, DataType::Interval(_));
        let instant = DataType::Timestamp(TimeUnit::Microsecond, None);
        match expr.op {
            BinaryOperator::Multiply if length(&left) && right.is_numeric() => {
                return Ok(PlannerResult::Planned(times().call(vec![expr.left, expr.right])));
            }
            BinaryOperator::Multiply if left.is_numeric() && length(&right) => {
                return Ok(PlannerResult::Planned(times().call(vec![expr.right, expr.left])));
            }
            BinaryOperator::Divide if length(&left) && (right.is_numeric() || right.is_null()) => {
                return Ok(PlannerResult::Planned(parts().call(vec![expr.left, expr.right])));
            }
            BinaryOperator::Plus | BinaryOperator::Minus
                if date(&left) && length(&right) && !of_days(&expr.right) =>
            {
                expr.left = cast(expr.left, instant);
            }
            BinaryOperator::Plus if length(&left) && date(&right) && !of_days(&expr.left) => {
                expr.right = cast(expr.right, instant);
            }
            _ => {}
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Whether a length is one of whole days, months and years.
fn of_days(length: &Expr) -> bool {
    match length {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) => length.nanoseconds == 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(length)), _) => length.milliseconds == 0,
        Expr::Literal(..) => true,
        Expr::Negative(length) => of_days(length),
        _ => false,
    }
}
