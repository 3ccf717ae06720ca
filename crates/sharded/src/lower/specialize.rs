//! Expressions that are evaluated in ways of our own where these are faster: comparisons of texts, and what
//! is worth machine code.

use super::native;
use crate::texts;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// An expression over these columns, with its parts replaced that have a faster way.
///
/// # Errors
/// `Internal` if an expression cannot be rebuilt.
pub(super) fn specialize(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    native::compile(texts::specialize(expr, schema)?, schema)
}

/// Specializes the expressions of projections and filters. It runs after all rules that look at expressions.
#[derive(Debug)]
pub(super) struct SpecializedExpressions;

impl PhysicalOptimizerRule for SpecializedExpressions {
    fn name(&self) -> &str {
        "specialized_expressions"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
                return of_projection(projection);
            }
            match plan.downcast_ref::<FilterExec>() {
                Some(filter) => of_filter(filter),
                None => Ok(Transformed::no(plan)),
            }
        })
        .data()
    }
}

fn of_projection(projection: &ProjectionExec) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let schema = projection.input().schema();
    let exprs = projection.expr().iter().map(|column| {
        let expr = specialize(Arc::clone(&column.expr), &schema)?;
        Ok(ProjectionExpr { expr, alias: column.alias.clone() })
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let specialized = ProjectionExec::try_new(exprs, Arc::clone(projection.input()))?;
    Ok(Transformed::yes(Arc::new(specialized)))
}

fn of_filter(filter: &FilterExec) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let schema = filter.input().schema();
    let conjuncts = split_conjunction(filter.predicate()).into_iter().cloned();
    let conjuncts = conjuncts.map(|conjunct| match is_equality(&conjunct) {
        // The filter tells from it that a column is constant, and the order of rows may rest on that.
        true => Ok(conjunct),
        false => texts::specialize(conjunct, &schema),
    });
    let predicate = native::compile(conjunction(conjuncts.collect::<Result<Vec<_>>>()?), &schema)?;
    let specialized = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
    Ok(Transformed::yes(Arc::new(specialized)))
}

fn is_equality(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<BinaryExpr>().is_some_and(|comparison| *comparison.op() == Operator::Eq)
}
