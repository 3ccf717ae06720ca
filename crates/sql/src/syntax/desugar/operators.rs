//! Operators that the parser binds otherwise than SQL, or that are functions here.
//!
//! ```sql
//! select a is distinct from 1 and b;  -- (a is distinct from 1) and b
//! select ~a, a ^@ 'x';                -- -1 - a, starts_with(a, 'x')
//! ```

use crate::syntax::ast::{call, nested};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator, Value};

/// Takes back what the parser gave to the right of `is distinct from` beyond its operand. What stands around
/// it binds as it has to only after that, so `and` and `not` are looked at too.
pub(super) fn rebind_operands(expr: &mut Expr) {
    let (operand, looser): (_, fn(&Expr) -> bool) = match &mut *expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => (right, logical),
        Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => (inner, logical),
        Expr::BinaryOp { op: BinaryOperator::And, right, .. } => (right, disjunction),
        _ => return,
    };
    if !looser(operand) {
        return;
    }
    // The operand is at the left end of what was taken; the whole takes its place there.
    let mut tree = std::mem::replace(operand.as_mut(), Expr::Identifier(Ident::new("")));
    let mut end = &mut tree;
    while looser(end) {
        let Expr::BinaryOp { left, .. } = end else { break };
        end = left.as_mut();
    }
    std::mem::swap(operand.as_mut(), end);
    std::mem::swap(expr, end);
    *expr = tree;
}

/// `a ^@ b` is `starts_with(a, b)`.
pub(super) fn begins_with(expr: &mut Expr) {
    if let Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } = expr {
        *expr = call("starts_with", vec![left.as_ref().clone(), right.as_ref().clone()]);
    }
}

/// `~a` is `-1 - a`, as numbers are written with two's complement.
pub(super) fn bitwise_not(operand: Expr) -> Expr {
    let one = Expr::Value(Value::Number("1".to_string(), false).into());
    let left = Box::new(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(one) });
    nested(Expr::BinaryOp { left, op: BinaryOperator::Minus, right: Box::new(nested(operand)) })
}

/// Whether an expression is a logical operator.
fn logical(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor, .. })
}

/// Whether an expression is a logical operator that binds weaker than `and`.
fn disjunction(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::Or | BinaryOperator::Xor, .. })
}
