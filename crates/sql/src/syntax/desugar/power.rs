//! `^` is the power, as in PostgreSQL and DuckDB. The parser takes it for an exclusive or, which binds looser than
//! `+`; so the operands that it was given are taken apart, and put together again as arithmetic binds.

use crate::syntax::ast::{call, nested};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident};

/// Says `a ^ b` as `power(a, b)`. Operands have none left.
pub(super) fn desugar(expr: &mut Expr) {
    if !matches!(expr, Expr::BinaryOp { op: BinaryOperator::BitwiseXor, .. }) {
        return;
    }
    let mut terms = Terms::default();
    terms.take(std::mem::replace(expr, Expr::Identifier(Ident::new(""))));
    *expr = terms.sum();
}

/// Operands with the operators before them, as they were written; the first has none.
#[derive(Default)]
struct Terms(Vec<(Option<BinaryOperator>, Expr)>);

impl Terms {
    fn take(&mut self, expr: Expr) {
        match expr {
            Expr::BinaryOp { left, op, right } if binds(&op).is_some() => {
                self.take(*left);
                let before = self.0.len();
                self.take(*right);
                self.0[before].0 = Some(op);
            }
            operand => self.0.push((None, operand)),
        }
    }

    /// All of them: powers first, then products, then sums, each from the left.
    fn sum(self) -> Expr {
        let powers = joined(self.0, 3);
        let mut sum = joined(joined(powers, 2), 1);
        // All operators bind in one of three ways, so one operand is left.
        sum.swap_remove(0).1
    }
}

/// How strongly an operator binds, if it is one of arithmetic.
fn binds(op: &BinaryOperator) -> Option<u8> {
    match op {
        BinaryOperator::BitwiseXor => Some(3),
        BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo => Some(2),
        BinaryOperator::Plus | BinaryOperator::Minus => Some(1),
        _ => None,
    }
}

/// The terms, those joined whose operators bind so strongly.
fn joined(terms: Vec<(Option<BinaryOperator>, Expr)>, strength: u8) -> Vec<(Option<BinaryOperator>, Expr)> {
    let mut out: Vec<(Option<BinaryOperator>, Expr)> = Vec::with_capacity(terms.len());
    for (op, right) in terms {
        match (op, out.last_mut()) {
            (Some(op), Some((_, left))) if binds(&op) == Some(strength) => {
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
