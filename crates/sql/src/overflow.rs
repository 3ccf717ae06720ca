//! Whole numbers that are written in a query, and whose sum, difference or product is too large for its type: the optimizer
//! would compute them without a look. Where there are columns, it is seen when the query runs. Shifts are functions that look.

use crate::functions::{shift_left, shift_right};
use crate::type_names;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Refuses results that are too large; plans shifts only.
#[derive(Debug)]
pub(crate) struct Overflow;

impl ExprPlanner for Overflow {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let op = match expr.op {
            BinaryOperator::Plus => Operator::Plus,
            BinaryOperator::Minus => Operator::Minus,
            BinaryOperator::Multiply => Operator::Multiply,
            BinaryOperator::PGBitwiseShiftLeft => {
                return Ok(PlannerResult::Planned(shift_left().call(vec![expr.left, expr.right])));
            }
            BinaryOperator::PGBitwiseShiftRight => {
                return Ok(PlannerResult::Planned(shift_right().call(vec![expr.left, expr.right])));
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let (Some(left), Some(right)) = (number(&expr.left), number(&expr.right)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let types = (expr.left.get_type(schema)?, expr.right.get_type(schema)?);
        let kind = BinaryTypeCoercer::new(&types.0, &op, &types.1).get_result_type()?;
        match computed(left, op, right).zip(range(&kind)) {
            Some((value, (least, greatest))) if value < least || value > greatest => {
                plan_err!(
                    "{left} {op} {right} is too large for {}; cast one of them to a larger type, decimal(38, 0)",
                    type_names::name(&kind)
                )
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// The number that an expression without columns is.
fn number(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Literal(value, _) => literal(value),
        Expr::Cast(cast) if cast.field.data_type().is_integer() => number(&cast.expr),
        Expr::Negative(inner) => number(inner).map(|value| -value),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => computed(number(left)?, *op, number(right)?),
        _ => None,
    }
}

fn literal(value: &ScalarValue) -> Option<i128> {
    if !value.data_type().is_integer() || value.is_null() {
        return None;
    }
    value.to_string().parse().ok()
}

fn computed(left: i128, op: Operator, right: i128) -> Option<i128> {
    match op {
        Operator::Plus => left.checked_add(right),
        Operator::Minus => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        _ => None,
    }
}

/// The least and the greatest number of a type.
fn range(kind: &DataType) -> Option<(i128, i128)> {
    let bits = 8 * kind.primitive_width()?;
    match kind {
        _ if kind.is_signed_integer() => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        _ if kind.is_unsigned_integer() => Some((0, (1 << bits) - 1)),
        _ => None,
    }
}
