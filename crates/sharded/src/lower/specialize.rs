//! Expressions that are evaluated in ways of our own where these are faster: comparisons of texts and of
//! floats, and what is worth machine code.

use super::filter::filter;
use super::native;
use crate::float_range::with_float_ranges;
use crate::texts;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// An expression over these columns, with its parts replaced that have a faster way.
///
/// # Errors
/// `Internal` if an expression cannot be rebuilt.
pub(super) fn specialize(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let conjuncts = split_conjunction(&expr).into_iter().cloned().collect();
    let conjuncts =
        with_float_ranges(conjuncts).into_iter().map(|conjunct| texts::specialize(conjunct, schema));
    native::compile(conjunction(conjuncts.collect::<Result<Vec<_>>>()?), schema)
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
            let filter = plan.downcast_ref::<FilterExec>().map(of_filter).transpose()?.flatten();
            Ok(filter.map_or_else(|| Transformed::no(plan), Transformed::yes))
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

fn of_filter(original: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let predicate = specialize(Arc::clone(original.predicate()), &original.input().schema())?;
    Ok(filter(original, predicate))
}
