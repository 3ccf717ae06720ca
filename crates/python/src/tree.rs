//! Expressions while they are built. An operator shares its operands, so that to build one costs the same
//! whatever their size.
//!
//! Invariants: no tree is deeper than [`MOST_LEVELS`], nor has more than [`MOST_PARTS`]: shared operands
//! count as often as they are there. A chain of `and` or `or` counts as the balanced tree that is built of
//! it. A chain may be long, so nothing here recurses along it.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator, binary_expr};
use pyo3::prelude::*;
use std::mem::replace;
use std::sync::Arc;
use whimbrel_plan::depth::{self, MOST_LEVELS, MOST_PARTS, Size, depth_of_chain};

use crate::error::OrRaise;

/// A shared expression.
#[derive(Debug)]
pub struct Tree {
    shape: Shape,
    /// The type of the expression, if it is known.
    pub data_type: Option<DataType>,
    size: Size,
    chain: Chain,
}

/// A chain of `and` or `or`. Any other tree is a chain of one operand.
#[derive(Debug, Clone, Copy)]
struct Chain {
    /// The number of operands.
    operands: usize,
    /// The depth of the deepest operand.
    depth: usize,
}

/// The root of a tree.
#[derive(Debug)]
enum Shape {
    /// An expression of DataFusion.
    Leaf(Expr),
    /// An operator and its operands.
    Binary(Arc<Tree>, Operator, Arc<Tree>),
}

impl Tree {
    /// A tree of one leaf.
    ///
    /// # Errors
    /// `InvalidError` if it is too deep, or too large.
    pub fn leaf(expr: Expr, data_type: Option<DataType>) -> PyResult<Arc<Tree>> {
        let size = depth::size(&expr);
        Tree::with_limits(Shape::Leaf(expr), data_type, size, Chain { operands: 1, depth: size.depth })
    }

    /// An operator and its operands.
    ///
    /// # Errors
    /// `InvalidError` if it is too deep, or too large.
    pub fn binary(
        left: &Arc<Tree>,
        operator: Operator,
        right: &Arc<Tree>,
        data_type: Option<DataType>,
    ) -> PyResult<Arc<Tree>> {
        let shape = Shape::Binary(Arc::clone(left), operator, Arc::clone(right));
        let parts = left.size.parts.saturating_add(right.size.parts).saturating_add(1);
        if !is_chain(operator) {
            let depth = 1 + left.size.depth.max(right.size.depth);
            return Tree::with_limits(shape, data_type, Size { depth, parts }, Chain { operands: 1, depth });
        }
        let (left, right) = (left.chain_of(operator), right.chain_of(operator));
        let chain = Chain { operands: left.operands + right.operands, depth: left.depth.max(right.depth) };
        let depth = depth_of_chain(chain.operands, chain.depth);
        Tree::with_limits(shape, data_type, Size { depth, parts }, chain)
    }

    /// The tree, unless it is too deep or too large.
    fn with_limits(
        shape: Shape,
        data_type: Option<DataType>,
        size: Size,
        chain: Chain,
    ) -> PyResult<Arc<Tree>> {
        const WHAT: &str = "an expression";
        match size {
            Size { depth, .. } if depth > MOST_LEVELS => depth::too_deep(WHAT).or_raise(),
            Size { parts, .. } if parts > MOST_PARTS => depth::too_many_parts(WHAT).or_raise(),
            size => Ok(Arc::new(Tree { shape, data_type, size, chain })),
        }
    }

    /// The chain that this tree is as an operand of an operator.
    fn chain_of(&self, operator: Operator) -> Chain {
        match self.shape {
            Shape::Binary(_, own, _) if own == operator => self.chain,
            _ => Chain { operands: 1, depth: self.size.depth },
        }
    }

    /// The value, if the tree is a literal.
    pub fn literal(&self) -> Option<&ScalarValue> {
        match &self.shape {
            Shape::Leaf(Expr::Literal(value, _)) => Some(value),
            _ => None,
        }
    }

    /// The expression, if the tree is a leaf. Operators have no name.
    pub fn as_leaf(&self) -> Option<&Expr> {
        match &self.shape {
            Shape::Leaf(expr) => Some(expr),
            Shape::Binary(..) => None,
        }
    }

    /// The expression.
    pub fn expr(&self) -> Expr {
        match &self.shape {
            Shape::Leaf(expr) => expr.clone(),
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
        let (mut operands, mut stack) = (Vec::with_capacity(self.chain.operands), vec![self]);
        while let Some(tree) = stack.pop() {
            match &tree.shape {
                Shape::Binary(left, own, right) if *own == operator => {
                    stack.extend([right.as_ref(), left.as_ref()])
                }
                _ => operands.push(tree),
            }
        }
        operands
    }
}

/// Whether an operator makes chains.
fn is_chain(operator: Operator) -> bool {
    matches!(operator, Operator::And | Operator::Or)
}

/// Drops the operands one by one: the default would recurse along a chain.
impl Drop for Tree {
    fn drop(&mut self) {
        let placeholder = || Shape::Leaf(Expr::Literal(ScalarValue::Null, None));
        let mut stack = Vec::new();
        let mut shape = replace(&mut self.shape, placeholder());
        loop {
            if let Shape::Binary(left, _, right) = shape {
                stack.extend([left, right].into_iter().filter_map(Arc::into_inner));
            }
            match stack.pop() {
                Some(mut tree) => shape = replace(&mut tree.shape, placeholder()),
                None => return,
            }
        }
    }
}
