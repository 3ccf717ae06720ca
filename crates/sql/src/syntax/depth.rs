//! The depth of a statement. The parser builds a tree for `a + b + c + …` that is as deep as the chain is
//! long, without recursion; all walks over the tree recur. So this walk comes first:
//!
//! - long chains of `and`, and of `or`, become balanced trees of at most [`MOST_TERMS`] terms: DataFusion's
//!   rules split and join conditions term by term;
//! - trees deeper than [`MOST_LEVELS`] are refused, and dropped level by level; so are more than
//!   [`MOST_STEPS`] set operations.

use crate::syntax::walk::walk_mut;
use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SetExpr, Value, Values, VisitorMut,
};
use std::ops::ControlFlow;
use whimbrel_plan::depth::{MOST_LEVELS, MOST_STEPS};

/// Shorter chains stay as they are.
const LONG: usize = 16;

/// How many terms a condition may have.
const MOST_TERMS: usize = 10_000;

/// Flattens a statement.
///
/// # Errors
/// `Plan` if it is too deep.
pub(super) fn flatten(statement: &mut Statement) -> Result<()> {
    let mut depth = Depth { levels: 0, next: (std::ptr::null(), 0) };
    let visited = match statement {
        Statement::Statement(statement) => walk_mut(statement.as_mut(), &mut depth),
        Statement::Explain(explain) => return flatten(&mut explain.statement),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => walk_mut(query.as_mut(), &mut depth),
            CopyToSource::Relation(_) => return Ok(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => return Ok(()),
    };
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(message) => plan_err!("{message}"),
    }
}

/// Refuses a tree that is too deep.
fn too_deep<T>() -> ControlFlow<String, T> {
    ControlFlow::Break(format!(
        "more than {MOST_LEVELS} operators stand inside one another; compute a part of it in a query of its own, with p as \
         (select …), and go on from there"
    ))
}

/// Refuses a chain that is too long.
fn too_many(what: &str, most: usize) -> ControlFlow<String> {
    ControlFlow::Break(format!("there are more than {most} {what}; write values as in (…), or as a table"))
}

/// Flattens chains and measures the depth.
struct Depth {
    /// How deep the visitor is.
    levels: usize,
    /// The operand that is visited next, and how many levels there are below it on its left.
    next: (*const Expr, usize),
}

impl VisitorMut for Depth {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        self.levels += 1;
        let mut operations = 0;
        let mut body = query.body.as_ref();
        while let SetExpr::SetOperation { left, .. } = body {
            (body, operations) = (left, operations + 1);
        }
        if self.levels > MOST_LEVELS {
            return too_deep();
        }
        if operations <= MOST_STEPS {
            return ControlFlow::Continue(());
        }
        let mut body = take_body(&mut query.body);
        while let SetExpr::SetOperation { left, .. } = &mut body {
            body = take_body(left);
        }
        too_many("set operations in one query", MOST_STEPS)
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.levels -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        flat(expr)?;
        self.levels += 1;
        let below = match self.next {
            (known, below) if std::ptr::eq(known, expr) => below,
            _ => levels_below(expr),
        };
        if let Some(operand) = first_operand(expr) {
            self.next = (operand, below.saturating_sub(1));
        }
        if self.levels + below <= MOST_LEVELS {
            return ControlFlow::Continue(());
        }
        dismantle(std::mem::replace(expr, nothing()));
        too_deep()
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<String> {
        self.levels -= 1;
        ControlFlow::Continue(())
    }
}

/// How many levels there are on the left of an expression.
fn levels_below(expr: &mut Expr) -> usize {
    let mut below = 0;
    let mut end = expr;
    while let Some(operand) = first_operand(end) {
        (end, below) = (operand, below + 1);
    }
    below
}

/// Drops an expression level by level.
fn dismantle(mut expr: Expr) {
    while let Some(operand) = first_operand(&mut expr) {
        expr = std::mem::replace(operand, nothing());
    }
}

/// An expression in place of one that was taken.
fn nothing() -> Expr {
    Expr::Identifier(Ident::new(""))
}

/// The body, and no values in its place.
pub(super) fn take_body(body: &mut SetExpr) -> SetExpr {
    let nothing = Values { explicit_row: false, value_keyword: false, rows: vec![] };
    std::mem::replace(body, SetExpr::Values(nothing))
}

/// What stands to the left of an operator. Only there the parser makes a tree deeper without recursion.
fn first_operand(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::BinaryOp { left, .. } | Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } => Some(left),
        Expr::IsFalse(expr)
        | Expr::IsNotFalse(expr)
        | Expr::IsTrue(expr)
        | Expr::IsNotTrue(expr)
        | Expr::IsNull(expr)
        | Expr::IsNotNull(expr)
        | Expr::IsUnknown(expr)
        | Expr::IsNotUnknown(expr)
        | Expr::OuterJoin(expr) => Some(expr),
        Expr::IsDistinctFrom(left, _) | Expr::IsNotDistinctFrom(left, _) => Some(left),
        Expr::IsNormalized { expr, .. }
        | Expr::InList { expr, .. }
        | Expr::InSubquery { expr, .. }
        | Expr::InUnnest { expr, .. }
        | Expr::Between { expr, .. }
        | Expr::Like { expr, .. }
        | Expr::ILike { expr, .. }
        | Expr::SimilarTo { expr, .. }
        | Expr::RLike { expr, .. }
        | Expr::Cast { expr, .. }
        | Expr::Collate { expr, .. }
        | Expr::Named { expr, .. }
        | Expr::UnaryOp { expr, .. } => Some(expr),
        Expr::CompoundFieldAccess { root, .. } => Some(root),
        Expr::JsonAccess { value, .. } => Some(value),
        Expr::AtTimeZone { timestamp, .. } => Some(timestamp),
        _ => None,
    }
}

/// A long chain of `and` or of `or` as a tree of few levels.
fn flat(expr: &mut Expr) -> ControlFlow<String> {
    let Expr::BinaryOp { op: chained @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr else {
        return ControlFlow::Continue(());
    };
    let chained = chained.clone();
    let mut links = 0;
    let mut end = &*expr;
    while let Expr::BinaryOp { left, op, .. } = end
        && *op == chained
    {
        (end, links) = (left, links + 1);
    }
    if links < LONG {
        return ControlFlow::Continue(());
    }
    if links >= MOST_TERMS {
        dismantle(std::mem::replace(expr, nothing()));
        return too_many("terms in one condition", MOST_TERMS);
    }
    let mut rest = std::mem::replace(expr, nothing());
    let mut operands = Vec::with_capacity(links + 1);
    loop {
        match rest {
            Expr::BinaryOp { left, op, right } if op == chained => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    *expr = tree(&chained, &mut operands.into_iter().rev());
    ControlFlow::Continue(())
}

/// The tree of all operands.
fn tree(op: &BinaryOperator, operands: &mut impl ExactSizeIterator<Item = Expr>) -> Expr {
    /// The tree of so many operands.
    fn of(op: &BinaryOperator, operands: &mut impl Iterator<Item = Expr>, count: usize) -> Expr {
        if count == 1 {
            // Whoever calls this counts what there is.
            return operands.next().unwrap_or_else(|| Expr::Value(Value::Null.into()));
        }
        let left = Box::new(of(op, operands, count / 2));
        let right = Box::new(of(op, operands, count - count / 2));
        Expr::BinaryOp { left, op: op.clone(), right }
    }
    let count = operands.len();
    of(op, operands, count)
}
