//! Rewrites of the expressions of one node. A rewritten expression keeps the name that its column has.

use crate::columns::fresh_name;
use crate::tree::{ExprRewrite, any_expr, is_same_expr, transform_expr_down, transform_expr_up, visit_expr};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ident};

/// Rewrites the expressions of a node, operands first.
///
/// # Errors
/// Those of `rewrite`.
pub(super) fn rewrite_expressions(
    plan: LogicalPlan,
    rewrite: &mut ExprRewrite,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(transform_expr_up(expr, rewrite)?.update_data(|expr| name.restore(expr)))
    })
}

/// The different expressions inside a node's that `wanted` picks; nothing is picked inside of one.
///
/// # Errors
/// Those of the walk.
pub(super) fn find_expressions(plan: &LogicalPlan, wanted: &dyn Fn(&Expr) -> Pick) -> Result<Vec<Expr>> {
    let mut found: Vec<Expr> = Vec::new();
    for expr in plan.expressions() {
        visit_expr(&expr, &mut |e| {
            let pick = wanted(e);
            if pick == Pick::Take && !found.iter().any(|known| is_same_expr(known, e)) {
                found.push(e.clone());
            }
            Ok(if pick == Pick::Descend { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Jump })
        })?;
    }
    Ok(found)
}

/// What to do with an expression when some are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// It is one of them.
    Take,
    /// It is none of them, and neither is anything inside of it.
    Skip,
    /// Some may be inside of it.
    Descend,
}

/// The node over other inputs, with some of its expressions replaced by others.
///
/// # Errors
/// `Plan` if the node cannot be built with the new expressions.
pub(super) fn replace_expressions(
    plan: &LogicalPlan,
    replacements: &[(Expr, Expr)],
    input: LogicalPlan,
) -> Result<LogicalPlan> {
    let names = NamePreserver::new(plan);
    let exprs = plan.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        let replaced = transform_expr_down(expr, &mut |e| match replacements
            .iter()
            .find(|(old, _)| is_same_expr(old, &e))
        {
            Some((_, new)) => Ok(Transformed::new(new.clone(), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(e)),
        })?;
        Ok(name.restore(replaced.data))
    });
    plan.with_new_exprs(exprs.collect::<Result<Vec<_>>>()?, vec![input])
}

/// The node with some of its expressions computed before it, as columns of its input. `None` if there are
/// none of them, or the node has not exactly one input. `finish` is applied to the projection that computes
/// them.
///
/// # Errors
/// `Plan` if the node cannot be built; those of `finish`.
pub(super) fn hoist_expressions(
    plan: &LogicalPlan,
    wanted: &dyn Fn(&Expr) -> Pick,
    finish: fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<Option<LogicalPlan>> {
    let found = find_expressions(plan, wanted)?;
    let inputs = plan.inputs();
    let ([input], false) = (inputs.as_slice(), found.is_empty()) else { return Ok(None) };
    let names: Vec<String> = found.iter().map(|_| fresh_name("value")).collect();
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let values = found.iter().zip(&names).map(|(expr, name)| expr.clone().alias(name));
    let input =
        LogicalPlanBuilder::from((*input).clone()).project(columns.chain(values).collect::<Vec<_>>())?;
    let replacements: Vec<(Expr, Expr)> = found.into_iter().zip(names.into_iter().map(ident)).collect();
    let rewritten = replace_expressions(plan, &replacements, finish(input.build()?)?)?;
    // A sort and a window hand the new columns on.
    let outputs: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    Ok(Some(match rewritten.schema().fields().len() == outputs.len() {
        true => rewritten,
        false => LogicalPlanBuilder::from(rewritten).project(outputs)?.build()?,
    }))
}

/// Whether an expression contains a subquery.
pub(super) fn contains_subquery(expr: &Expr) -> bool {
    any_expr(expr, &mut is_subquery)
}

/// Whether an expression is a subquery.
pub(super) fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_))
}

/// Whether an expression contains `in (select …)` or `exists`.
pub(super) fn contains_membership(expr: &Expr) -> bool {
    any_expr(expr, &mut |e| matches!(e, Expr::InSubquery(_) | Expr::Exists(_)))
}
