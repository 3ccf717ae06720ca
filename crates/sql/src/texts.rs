//! What is right only where types are known: texts of instants, lengths of time and lists, and comparisons of lengths.
//!
//! `t::varchar` and `t || ''` are casts by now, and DataFusion's casts write instants with a `T`, and nulls in lists as nothing.
//! DataFusion compares lengths field by field.

use crate::functions::{comparable, text};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, cast};
use datafusion::optimizer::AnalyzerRule;

/// Puts our functions in place of such casts and comparisons.
#[derive(Debug)]
pub(crate) struct Texts;

impl AnalyzerRule for Texts {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(said).data()
    }

    fn name(&self) -> &str {
        "texts"
    }
}

fn said(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let inputs = plan.inputs();
    if inputs.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&inputs);
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let said = expr.transform_up(|expr| in_place(expr, &schema))?;
        Ok(said.update_data(|expr| name.restore(expr)))
    })
}

fn in_place(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_length = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Interval(_)));
    match expr {
        Expr::Cast(Cast { expr, field })
            if field.data_type().is_string()
                && expr.get_type(schema).is_ok_and(|kind| crate::functions::has_own_text(&kind)) =>
        {
            let written = text().call(vec![*expr]);
            Ok(Transformed::yes(match field.data_type() {
                DataType::Utf8 => written,
                kind => cast(written, kind.clone()),
            }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(op) && is_length(&left) && is_length(&right) =>
        {
            let by = |side: Box<Expr>| Box::new(comparable().call(vec![*side]));
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: by(left), op, right: by(right) })))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn compares(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq)
        || matches!(op, O::IsDistinctFrom | O::IsNotDistinctFrom)
}
