//! `a << b` and `a >> b` are planned as functions that fail on overflow.

use crate::functions::{shift_left, shift_right};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans shifts.
#[derive(Debug)]
pub(crate) struct Shift;

impl ExprPlanner for Shift {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let shift = match expr.op {
            BinaryOperator::PGBitwiseShiftLeft => shift_left(),
            BinaryOperator::PGBitwiseShiftRight => shift_right(),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        Ok(PlannerResult::Planned(shift.call(vec![expr.left, expr.right])))
    }
}
