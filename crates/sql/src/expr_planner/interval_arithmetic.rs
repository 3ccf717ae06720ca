//! Arithmetic with intervals that DataFusion does not have: `interval '1 day' * 2`, `interval '1 day' / 2`. A
//! date plus an interval with hours is a timestamp, as in DuckDB and PostgreSQL.

use crate::functions::{parts, times};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans products and quotients of intervals, and sums of dates and intervals.
#[derive(Debug)]
pub(crate) struct IntervalArithmetic;

impl ExprPlanner for IntervalArithmetic {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        // An unknown column is reported later, with its place.
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let is_date = |kind: &DataType| matches!(kind, DataType::Date32 | DataType::Date64);
        let is_interval = |kind: &DataType| matches!(kind, DataType::Interval(_));
        let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
        match expr.op {
            BinaryOperator::Multiply if is_interval(&left) && right.is_numeric() => {
                return Ok(PlannerResult::Planned(times().call(vec![expr.left, expr.right])));
            }
            BinaryOperator::Multiply if left.is_numeric() && is_interval(&right) => {
                return Ok(PlannerResult::Planned(times().call(vec![expr.right, expr.left])));
            }
            BinaryOperator::Divide if is_interval(&left) && (right.is_numeric() || right.is_null()) => {
                return Ok(PlannerResult::Planned(parts().call(vec![expr.left, expr.right])));
            }
            BinaryOperator::Plus | BinaryOperator::Minus
                if is_date(&left) && is_interval(&right) && !is_of_days(&expr.right) =>
            {
                expr.left = cast(expr.left, timestamp);
            }
            BinaryOperator::Plus if is_interval(&left) && is_date(&right) && !is_of_days(&expr.left) => {
                expr.right = cast(expr.right, timestamp);
            }
            _ => {}
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Whether an interval has whole days, months and years only.
fn is_of_days(interval: &Expr) -> bool {
    match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) => length.nanoseconds == 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(length)), _) => length.milliseconds == 0,
        Expr::Literal(..) => true,
        Expr::Negative(interval) => is_of_days(interval),
        _ => false,
    }
}
