//! `^` is the power, as in PostgreSQL and DuckDB. The parser takes it for an exclusive or, which binds looser
//! than `+`; so the operands are flattened, and combined again by the precedence of arithmetic.
//!
//! ```sql
//! select 2 * 3 ^ 2 + 1;  -- 2 * power(3, 2) + 1
//! ```

use crate::syntax::ast::{call, nested};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident};

/// Rewrites `a ^ b` as `power(a, b)`. Operands are rewritten already.
pub(super) fn desugar(expr: &mut Expr) {
    if !matches!(expr, Expr::BinaryOp { op: BinaryOperator::BitwiseXor, .. }) {
        return;
    }
    let mut terms = Terms::default();
    terms.take(std::mem::replace(expr, Expr::Identifier(Ident::new(""))));
    *expr = terms.combine();
}

/// Operands with the operators before them, in order; the first has none.
#[derive(Default)]
struct Terms(Vec<(Option<BinaryOperator>, Expr)>);

impl Terms {
    /// Flattens an expression.
    fn take(&mut self, expr: Expr) {
        match expr {
            Expr::BinaryOp { left, op, right } if precedence(&op).is_some() => {
                self.take(*left);
                let before = self.0.len();
                self.take(*right);
                self.0[before].0 = Some(op);
            }
            operand => self.0.push((None, operand)),
        }
    }

    /// One expression: powers first, then products, then sums, each from the left.
    fn combine(self) -> Expr {
        let powers = combine_level(self.0, 3);
        let mut sum = combine_level(combine_level(powers, 2), 1);
        // There are three levels, so one operand is left.
        sum.swap_remove(0).1
    }
}

/// The precedence of an arithmetic operator.
fn precedence(op: &BinaryOperator) -> Option<u8> {
    match op {
        BinaryOperator::BitwiseXor => Some(3),
        BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo => Some(2),
        BinaryOperator::Plus | BinaryOperator::Minus => Some(1),
        _ => None,
    }
}

/// The terms, those combined whose operators have this precedence.
fn combine_level(
    terms: Vec<(Option<BinaryOperator>, Expr)>,
    level: u8,
) -> Vec<(Option<BinaryOperator>, Expr)> {
    let mut out: Vec<(Option<BinaryOperator>, Expr)> = Vec::with_capacity(terms.len());
    for (op, right) in terms {
        match (op, out.last_mut()) {
            (Some(op), Some((_, left))) if precedence(&op) == Some(level) => {
                let first = std::mem::replace(left, Expr::Identifier(Ident::new("")));
                *left = match op {
                    BinaryOperator::BitwiseXor => call("power", vec![first, right]),
                    op => Expr::BinaryOp { left: Box::new(first), op, right: Box::new(nested(right)) },
                };
            }
            (op, _) => out.push((op, right)),
        }
    }
    out
}
