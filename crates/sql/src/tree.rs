//! Walks over plans and expressions, and their equality.
//!
//! DataFusion's walks are generic: each closure compiles the walk over all types of nodes anew. And its
//! derived equality is inlined down to the syntax tree. Here all callers share one walk, which calls them
//! through a pointer, and one comparison.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// What becomes of one node of a plan.
pub(crate) type PlanRewrite<'a> = dyn FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>> + 'a;

/// What becomes of one node of an expression.
pub(crate) type ExprRewrite<'a> = dyn FnMut(Expr) -> Result<Transformed<Expr>> + 'a;

/// Rewrites the nodes of a plan, inputs first.
///
/// # Errors
/// Those of `rewrite`.
pub(crate) fn transform_up(plan: LogicalPlan, rewrite: &mut PlanRewrite) -> Result<LogicalPlan> {
    plan.transform_up(rewrite).data()
}

/// Rewrites the nodes of a plan, and of the subqueries in its expressions, inputs first.
///
/// # Errors
/// Those of `rewrite`.
pub(crate) fn transform_up_with_subqueries(
    plan: LogicalPlan,
    rewrite: &mut PlanRewrite,
) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(rewrite).data()
}

/// Rewrites the nodes of a plan, and of the subqueries in its expressions, inputs last.
///
/// # Errors
/// Those of `rewrite`.
pub(crate) fn transform_down_with_subqueries(
    plan: LogicalPlan,
    rewrite: &mut PlanRewrite,
) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(rewrite).data()
}

/// Rewrites the nodes of a plan, inputs last.
///
/// # Errors
/// Those of `rewrite`.
pub(crate) fn transform_down(
    plan: LogicalPlan,
    rewrite: &mut PlanRewrite,
) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down(rewrite)
}

/// Rewrites the nodes of an expression, operands first.
///
/// # Errors
/// Those of `rewrite`.
pub(crate) fn transform_expr_up(expr: Expr, rewrite: &mut ExprRewrite) -> Result<Transformed<Expr>> {
    expr.transform_up(rewrite)
}

/// Rewrites the nodes of an expression, operands last.
///
/// # Errors
/// Those of `rewrite`.
pub(crate) fn transform_expr_down(expr: Expr, rewrite: &mut ExprRewrite) -> Result<Transformed<Expr>> {
    expr.transform_down(rewrite)
}

/// Visits the nodes of a plan, inputs last.
///
/// # Errors
/// Those of `visit`.
pub(crate) fn visit_plan(
    plan: &LogicalPlan,
    visit: &mut dyn FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<()> {
    plan.apply(visit).map(|_| ())
}

/// Visits the nodes of an expression, operands last.
///
/// # Errors
/// Those of `visit`.
pub(crate) fn visit_expr(
    expr: &Expr,
    visit: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>,
) -> Result<()> {
    expr.apply(visit).map(|_| ())
}

/// Whether a node of an expression fits.
pub(crate) fn any_expr(expr: &Expr, fits: &mut dyn FnMut(&Expr) -> bool) -> bool {
    let mut found = false;
    // The visitor never fails.
    let _ = visit_expr(expr, &mut |e| {
        found = fits(e);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// Whether a node of a plan fits.
pub(crate) fn any_plan(plan: &LogicalPlan, fits: &mut dyn FnMut(&LogicalPlan) -> bool) -> bool {
    let mut found = false;
    // The visitor never fails.
    let _ = visit_plan(plan, &mut |node| {
        found = fits(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// Whether two plans are equal.
#[inline(never)]
pub(crate) fn is_same_plan(one: &LogicalPlan, other: &LogicalPlan) -> bool {
    one == other
}

/// Whether two expressions are equal.
#[inline(never)]
pub(crate) fn is_same_expr(one: &Expr, other: &Expr) -> bool {
    one == other
}
