//! Columns that a filter leaves out, as a step of their own.
//!
//! A filter takes a projection above it into itself. Where one more comes above, DataFusion looks for the columns of
//! the condition among those that are given out, by name and place, and moves the projection below the filter if it
//! finds them. But the two are counted differently once the filter leaves columns out: of two columns of one name, it finds
//! the wrong one. Without columns to leave out, both are counted alike.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

/// Lets filters below projections give out all columns. It comes before every rule that moves projections, which puts
/// the steps together again.
#[derive(Debug)]
pub(super) struct FiltersOfAllColumns;

impl PhysicalOptimizerRule for FiltersOfAllColumns {
    fn name(&self) -> &str {
        "filters_of_all_columns"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let filter = plan.downcast_ref::<ProjectionExec>().map(ProjectionExec::input);
            match filter.and_then(|filter| filter.downcast_ref::<FilterExec>()) {
                Some(filter) if filter.projection().is_some() => {
                    let filter = of_all_columns(filter)?;
                    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                    Ok(Transformed::yes(Arc::clone(&plan).replace_children(vec![filter], options)?))
                }
                _ => Ok(Transformed::no(plan)),
            }
        })
        .data()
    }
}

/// The same rows: the filter, and above it the columns that it gave out.
fn of_all_columns(filter: &FilterExec) -> Result<Arc<dyn ExecutionPlan>> {
    let input = filter.input().schema();
    let columns = filter.projection().iter().flat_map(|columns| columns.iter()).map(|place| {
        let name = input.field(*place).name();
        ProjectionExpr { expr: Arc::new(Column::new(name, *place)), alias: name.clone() }
    });
    let columns: Vec<ProjectionExpr> = columns.collect();
    let all = FilterExecBuilder::from(filter).apply_projection(None)?.build()?;
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::new(all))?))
}
