//! How deep expressions and plans may be.
//!
//! They are trees: whatever copies, compares, prints, computes or drops one recurses level by level, on the
//! stack of its thread. So there is a limit, far below what the smallest of these stacks holds; and long
//! chains of `and` and `or`, which programs write, are built as trees that are as flat as can be.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, binary_expr};

/// The maximal depth of an expression, as in DuckDB.
pub const MOST_LEVELS: usize = 1_000;

/// The maximal depth of a plan.
pub const MOST_STEPS: usize = 1_000;

/// How many operators and values an expression may have. In a program they may be shared: `x = x + x`,
/// written thirty times, has a thousand million.
pub const MOST_PARTS: usize = 1_000_000;

/// A chain of so many operands is left as it was written, the first two inside of all others.
const SHORT: usize = 64;

/// How large an expression is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// How many of its operators stand inside one another.
    pub depth: usize,
    /// How many operators and values it has.
    pub parts: usize,
}

/// How many operators of an expression stand inside one another.
pub fn depth(expr: &Expr) -> usize {
    size(expr).depth
}

/// How large an expression is.
pub fn size(expr: &Expr) -> Size {
    let mut size = Size { depth: 0, parts: 0 };
    let mut waiting = vec![(expr, 1)];
    while let Some((expr, depth)) = waiting.pop() {
        size = Size { depth: size.depth.max(depth), parts: size.parts + 1 };
        // Nothing fails: nothing is done but to remember.
        let _ = expr.apply_children(|child| {
            waiting.push((child, depth + 1));
            Ok(TreeNodeRecursion::Continue)
        });
    }
    size
}

/// Refuses an expression that is too deep. `verb` is the method it was given to.
///
/// # Errors
/// `Plan`, with what to do.
pub fn check_depth(expr: &Expr, verb: &str) -> Result<()> {
    match depth(expr) {
        0..=MOST_LEVELS => Ok(()),
        _ => too_deep(verb),
    }
}

/// Refuses a plan of too many steps upon one another.
///
/// # Errors
/// `Plan`, with what to do.
pub fn check_steps(plan: &LogicalPlan) -> Result<()> {
    let mut level = vec![plan];
    for _ in 0..MOST_STEPS {
        level = level.iter().flat_map(|plan| plan.inputs()).collect();
        // A plan may use another one in several places.
        level.sort_unstable_by_key(|plan| std::ptr::from_ref(*plan));
        level.dedup_by_key(|plan| std::ptr::from_ref(*plan));
        if level.is_empty() {
            return Ok(());
        }
    }
    plan_err!(
        "more than {MOST_STEPS} steps stand upon one another; run a part of the plan first and go on from its result \
         (to_memory), or say it in fewer steps"
    )
}

/// The error for an expression that is too deep.
///
/// # Errors
/// `Plan`, always.
pub fn too_deep<T>(verb: &str) -> Result<T> {
    plan_err!(
        "{verb}: more than {MOST_LEVELS} operators stand inside one another; compute a part of it first, as a column of its own \
         (with_columns), and go on from that, or use a function that takes many arguments"
    )
}

/// The error for an expression of too many parts.
///
/// # Errors
/// `Plan`, always.
pub fn too_many_parts<T>(verb: &str) -> Result<T> {
    plan_err!(
        "{verb}: more than {MOST_PARTS} operators and values; compute a part of it first, as a column of its own \
         (with_columns), and go on from that"
    )
}

/// How deep a chain of so many operands is, of which the deepest is so deep.
pub fn depth_of_chain(operands: usize, deepest: usize) -> usize {
    match operands {
        0..=SHORT => deepest + operands.saturating_sub(1),
        _ => deepest + operands.next_power_of_two().ilog2() as usize,
    }
}

/// The chain of these operands under `and` or `or`, in their order: a long one as a tree whose halves are
/// equally deep. None, of none.
///
/// ```
/// use datafusion::logical_expr::{Operator, lit};
/// use whimbrel_plan::depth::{chain, depth, depth_of_chain};
///
/// let chain_of_terms = chain(Operator::And, vec![lit(true); 1_024]);
/// assert_eq!(chain_of_terms.map(|expr| depth(&expr)), Some(11));
/// assert_eq!(depth_of_chain(1_024, 1), 11);
/// assert_eq!(chain(Operator::Or, vec![]), None);
/// ```
pub fn chain(operator: Operator, mut operands: Vec<Expr>) -> Option<Expr> {
    if operands.len() <= SHORT {
        return operands.into_iter().reduce(|left, right| binary_expr(left, operator, right));
    }
    while operands.len() > 1 {
        let mut pairs = Vec::with_capacity(operands.len().div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => binary_expr(left, operator, right),
                None => left,
            });
        }
        operands = pairs;
    }
    operands.pop()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn a_chain_is_as_deep_as_was_said() {
        for operands in [1, 2, 3, 63, 64, 65, 100, 127, 128, 129, 6_000] {
            let parts = (0..operands).map(|n| col("a").eq(lit(n as i64))).collect();
            let made = chain(Operator::And, parts).unwrap();
            assert_eq!(depth(&made), depth_of_chain(operands, 2), "{operands}");
        }
    }

    #[test]
    fn operands_stay_in_their_order() {
        let made = chain(Operator::Or, (0..1_000).map(|n| lit(n as i64)).collect()).unwrap();
        let mut seen = Vec::new();
        made.apply(|expr| {
            if let Expr::Literal(value, _) = expr {
                seen.push(value.to_string());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        assert_eq!(seen, (0..1_000).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn all_parts_are_counted() {
        assert_eq!(size(&(col("a") + lit(1) * col("b"))), Size { depth: 3, parts: 5 });
    }

    #[test]
    fn too_deep_is_refused() {
        let sum = |terms| (1..terms).fold(col("a"), |sum, _| sum + lit(1));
        assert!(check_depth(&sum(MOST_LEVELS), "select").is_ok());
        assert!(check_depth(&sum(MOST_LEVELS + 1), "select").is_err());
    }
}
