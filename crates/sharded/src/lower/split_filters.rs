//! Splits the projection of a filter off, as a node of its own.
//!
//! DataFusion embeds a projection above a filter in the filter. It moves a further projection below the
//! filter if it finds the columns of the predicate, by name and index, among those that come out. But with an
//! embedded projection these indices count different columns: of two columns of one name it finds the wrong
//! one. Without an embedded projection the indices agree.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

/// Splits projections off the filters below projections. It runs before each rule that moves projections;
/// that rule joins them again.
#[derive(Debug)]
pub(super) struct SplitFilterProjections;

impl PhysicalOptimizerRule for SplitFilterProjections {
    fn name(&self) -> &str {
        "split_filter_projections"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let filter = plan.downcast_ref::<ProjectionExec>().map(ProjectionExec::input);
            match filter.and_then(|filter| filter.downcast_ref::<FilterExec>()) {
                Some(filter) if filter.projection().is_some() => {
                    let filter = split(filter)?;
                    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                    Ok(Transformed::yes(Arc::clone(&plan).replace_children(vec![filter], options)?))
                }
                _ => Ok(Transformed::no(plan)),
            }
        })
        .data()
    }
}

/// The filter without its projection, and that projection above it.
fn split(filter: &FilterExec) -> Result<Arc<dyn ExecutionPlan>> {
    let input = filter.input().schema();
    let columns = filter.projection().iter().flat_map(|columns| columns.iter()).map(|index| {
        let name = input.field(*index).name();
        ProjectionExpr { expr: Arc::new(Column::new(name, *index)), alias: name.clone() }
    });
    let columns: Vec<ProjectionExpr> = columns.collect();
    let all = FilterExecBuilder::from(filter).apply_projection(None)?.build()?;
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::new(all))?))
}
