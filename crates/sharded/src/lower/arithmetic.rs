//! Arithmetic that is not the library's: of decimals because ours is faster, of whole numbers because ours fails where a
//! result is too large, and does not hand out another number.

use super::{decimal, integer};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan};
use std::sync::Arc;

/// The plan with its arithmetic done here.
pub(crate) fn ours(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| {
        let computes = matches!(
            plan,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Window(_)
        );
        if !computes {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| rewritten(expr, &schema))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

fn rewritten(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return Ok(Transformed::no(expr)) };
    let types = (left.get_type(schema)?, right.get_type(schema)?);
    Ok(match decimal::function(op, &types).or_else(|| integer::function(op, &types)) {
        Some(function) => {
            let args = vec![*left, *right];
            Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args)))
        }
        None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    })
}
