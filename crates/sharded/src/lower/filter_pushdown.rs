//! DataFusion's pushdown of filters, kept from mistaking one column for another.
//!
//! It finds the columns of a filter in the rows below by their names. Where two columns have one name, as the
//! rows of `a right join b` may, it finds the first of them: `where a.x is null` became `b.x is null` below
//! the join, and no row was left. So a node above such rows lets only those filters pass whose columns have
//! names of their own.

use crate::unary::{UnaryExec, UnaryOperator, names_of_their_own};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// One of DataFusion's rules that push filters down, over a plan with guards, which are taken out again.
#[derive(Debug)]
pub(super) struct GuardedFilterPushdown(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for GuardedFilterPushdown {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let guarded = plan.transform_up(|plan| match names_of_their_own(&plan.schema()) {
            Some(_) => Ok(Transformed::yes(Arc::new(UnaryExec::new(Guard, plan)) as _)),
            None => Ok(Transformed::no(plan)),
        })?;
        let optimized = self.0.optimize(guarded.data, options)?;
        if !guarded.transformed {
            return Ok(optimized);
        }
        optimized
            .transform_up(|plan| match plan.downcast_ref::<UnaryExec<Guard>>() {
                Some(guard) => Ok(Transformed::yes(Arc::clone(guard.input()))),
                None => Ok(Transformed::no(plan)),
            })
            .data()
    }
}

/// Hands on the rows as they are.
#[derive(Debug, Clone)]
struct Guard;

impl UnaryOperator for Guard {
    const NAME: &'static str = "FilterGuardExec";

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        input.execute(partition, context)
    }
}
