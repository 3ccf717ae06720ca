//! Arithmetic with intervals that DataFusion does not have: `interval '1 day' * 2`, `interval '1 day' / 2`. A
//! date plus an interval with hours is a timestamp, and a date plus an integer as many days later, as in
//! DuckDB and PostgreSQL.

use crate::functions::{parts, times};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, binary_expr, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans products and quotients of intervals, and sums of dates with intervals and integers.
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
            BinaryOperator::Plus if left.is_integer() && right == DataType::Date32 => {
                return Ok(PlannerResult::Planned(days_later(expr.right, Operator::Plus, expr.left)));
            }
            BinaryOperator::Plus if left == DataType::Date32 && right.is_integer() => {
                return Ok(PlannerResult::Planned(days_later(expr.left, Operator::Plus, expr.right)));
            }
            BinaryOperator::Minus if left == DataType::Date32 && right.is_integer() => {
                return Ok(PlannerResult::Planned(days_later(expr.left, Operator::Minus, expr.right)));
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

/// The date so many days later or earlier. Intervals of DataFusion end after 292 years; days are numbers.
fn days_later(date: Expr, operator: Operator, days: Expr) -> Expr {
    let day = cast(cast(date, DataType::Int32), DataType::Int64);
    let later = binary_expr(day, operator, cast(days, DataType::Int64));
    cast(cast(later, DataType::Int32), DataType::Date32)
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
