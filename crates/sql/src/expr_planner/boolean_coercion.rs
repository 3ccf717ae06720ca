//! Numbers as conditions, and conditions as numbers, where their types are known. A number is true unless it
//! is 0; true is 1.

use crate::syntax::normalize::COUNTED;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use whimbrel_plan::interrupted;

/// Coerces numbers that are operands of `and`, `or` and `xor`, and conditions that are compared or computed
/// with numbers.
#[derive(Debug)]
pub(crate) struct BooleanCoercion;

impl ExprPlanner for BooleanCoercion {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        interrupted()?;
        if matches!(&expr.op, B::Custom(name) if name == COUNTED) {
            return Ok(PlannerResult::Planned(match expr.left.get_type(schema) {
                Ok(DataType::Boolean) => cast(expr.left, DataType::Int64),
                _ => expr.left,
            }));
        }
        // An unknown column is reported later, with its place.
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        match expr.op {
            B::And | B::Or | B::Xor => {
                expr.left = true_unless_zero(expr.left, &left)?;
                expr.right = true_unless_zero(expr.right, &right)?;
            }
            B::Eq
            | B::NotEq
            | B::Lt
            | B::LtEq
            | B::Gt
            | B::GtEq
            | B::Plus
            | B::Minus
            | B::Multiply
            | B::Divide
            | B::Modulo => {
                let arithmetic = matches!(expr.op, B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo);
                let counts = |side: &DataType, other: &DataType| {
                    *side == DataType::Boolean && (other.is_numeric() || arithmetic && side == other)
                };
                let (first, second) = (counts(&left, &right), counts(&right, &left));
                if first {
                    expr.left = cast(expr.left, DataType::Int64);
                }
                if second {
                    expr.right = cast(expr.right, DataType::Int64);
                }
            }
            _ => {}
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// A number as the condition that it is not 0; other values stay.
fn true_unless_zero(expr: Expr, kind: &DataType) -> Result<Expr> {
    match kind.is_numeric() {
        true => Ok(expr.not_eq(lit(ScalarValue::new_zero(kind)?))),
        false => Ok(expr),
    }
}
