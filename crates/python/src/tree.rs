//! Expressions while they are built: an operator shares its operands, so that it costs the same however large they are.
//!
//! Invariants: no tree is deeper than [`MOST_LEVELS`], where a chain of `and` or `or` counts as deep as it is built in
//! the end; a chain itself may be long, so that nothing here calls itself along it.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator, binary_expr};
use pyo3::prelude::*;
use std::mem::replace;
use std::sync::Arc;
use whimbrel_plan::depth::{self, MOST_LEVELS, depth_of_chain};

use crate::error::{OrRaise, of_class};

/// How many operands a chain of `and` or `or` has at most. They are shared: a chain that is its own operand doubles them.
const MOST_OPERANDS: usize = 1_000_000;

/// A shared expression.
#[derive(Debug)]
pub struct Tree {
    shape: Shape,
    /// The type, if it is known.
    pub kind: Option<DataType>,
    depth: usize,
    /// How many operands its chain has, and how deep the deepest is.
    chain: (usize, usize),
}

#[derive(Debug)]
enum Shape {
    Whole(Expr),
    Binary(Arc<Tree>, Operator, Arc<Tree>),
}

impl Tree {
    /// A tree of one expression.
    ///
    /// # Errors
    /// `InvalidError` if it is too deep.
    pub fn whole(expr: Expr, kind: Option<DataType>) -> PyResult<Arc<Tree>> {
        let depth = depth::depth(&expr);
        Tree::checked(Shape::Whole(expr), kind, depth, (1, depth))
    }

    /// An operator and its operands.
    ///
    /// # Errors
    /// `InvalidError` if it is too deep.
    pub fn binary(
        left: &Arc<Tree>,
        operator: Operator,
        right: &Arc<Tree>,
        kind: Option<DataType>,
    ) -> PyResult<Arc<Tree>> {
        let shape = Shape::Binary(Arc::clone(left), operator, Arc::clone(right));
        if !is_chain(operator) {
            let depth = 1 + left.depth.max(right.depth);
            return Tree::checked(shape, kind, depth, (1, depth));
        }
        let (left, right) = (left.under(operator), right.under(operator));
        let (operands, deepest) = (left.0.saturating_add(right.0), left.1.max(right.1));
        if operands > MOST_OPERANDS {
            return Err(of_class(
                "InvalidError",
                (format!("an expression: a chain of more than {MOST_OPERANDS} terms"),),
            ));
        }
        Tree::checked(shape, kind, depth_of_chain(operands, deepest), (operands, deepest))
    }

    fn checked(
        shape: Shape,
        kind: Option<DataType>,
        depth: usize,
        chain: (usize, usize),
    ) -> PyResult<Arc<Tree>> {
        match depth {
            0..=MOST_LEVELS => Ok(Arc::new(Tree { shape, kind, depth, chain })),
            _ => depth::too_deep("an expression").or_raise(),
        }
    }

    /// How many operands it brings into a chain of this operator, and how deep the deepest is.
    fn under(&self, operator: Operator) -> (usize, usize) {
        match self.shape {
            Shape::Binary(_, own, _) if own == operator => self.chain,
            _ => (1, self.depth),
        }
    }

    /// The value, if it is a constant.
    pub fn literal(&self) -> Option<&ScalarValue> {
        match &self.shape {
            Shape::Whole(Expr::Literal(value, _)) => Some(value),
            _ => None,
        }
    }

    /// The expression, if it is one that may have a name.
    pub fn named(&self) -> Option<&Expr> {
        match &self.shape {
            Shape::Whole(expr) => Some(expr),
            Shape::Binary(..) => None,
        }
    }

    /// The expression.
    pub fn expr(&self) -> Expr {
        match &self.shape {
            Shape::Whole(expr) => expr.clone(),
            Shape::Binary(_, operator, _) if is_chain(*operator) => {
                let operands = self.operands(*operator).into_iter().map(Tree::expr).collect();
                depth::chain(*operator, operands)
                    .unwrap_or_else(|| unreachable!("a chain has two operands at least"))
            }
            Shape::Binary(left, operator, right) => binary_expr(left.expr(), *operator, right.expr()),
        }
    }

    /// The operands of a chain, in their order.
    fn operands(&self, operator: Operator) -> Vec<&Tree> {
        let (mut operands, mut waiting) = (Vec::with_capacity(self.chain.0), vec![self]);
        while let Some(tree) = waiting.pop() {
            match &tree.shape {
                Shape::Binary(left, own, right) if *own == operator => {
                    waiting.extend([right.as_ref(), left.as_ref()])
                }
                _ => operands.push(tree),
            }
        }
        operands
    }
}

fn is_chain(operator: Operator) -> bool {
    matches!(operator, Operator::And | Operator::Or)
}

impl Drop for Tree {
    fn drop(&mut self) {
        let gone = || Shape::Whole(Expr::Literal(ScalarValue::Null, None));
        let mut waiting = Vec::new();
        let mut shape = replace(&mut self.shape, gone());
        loop {
            if let Shape::Binary(left, _, right) = shape {
                waiting.extend([left, right].into_iter().filter_map(Arc::into_inner));
            }
            match waiting.pop() {
                Some(mut tree) => shape = replace(&mut tree.shape, gone()),
                None => return,
            }
        }
    }
}
