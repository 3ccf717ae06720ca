//! Groups by one whole number, found by its place in an array instead of by its hash.
//!
//! Identifiers count from one and come in about their order, so that an array of the numbers between the least and the
//! largest is small, and rows that follow each other find its places near each other. DataFusion's hash table is at another
//! place of memory for each of them.
//!
//! Invariant: groups come out as those of DataFusion's operator do, in the order in which their keys came first. Where memory
//! is limited that operator does the work, which can write its groups to a file.

mod numbers;
mod table;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;
use table::Table;

/// Has whole numbers found by their places wherever rows are grouped by one. It comes after the rules that look at
/// aggregates.
#[derive(Debug)]
pub(super) struct NumbersByPlace;

impl PhysicalOptimizerRule for NumbersByPlace {
    fn name(&self) -> &str {
        "numbers_by_place"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match plan.downcast_ref::<AggregateExec>() {
            Some(aggregate) if serves(aggregate)? => {
                let by_place: Arc<dyn ExecutionPlan> = Arc::new(ByPlaceExec(aggregate.clone()));
                Ok(Transformed::yes(by_place))
            }
            _ => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

/// Whether it is an aggregate of rows in no order by one whole number, of functions that keep all groups together.
fn serves(aggregate: &AggregateExec) -> Result<bool> {
    let keys = aggregate.group_expr();
    let whole = matches!(aggregate.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned);
    let unordered = *aggregate.input_order_mode() == InputOrderMode::Linear;
    if !whole || !unordered || aggregate.limit_options().is_some() || !keys.is_single() {
        return Ok(false);
    }
    let [(key, _)] = keys.expr() else { return Ok(false) };
    Ok(numbers::serve(&key.data_type(&aggregate.input_schema())?)
        && aggregate.aggr_expr().iter().all(|call| call.groups_accumulator_supported()))
}

/// The aggregate, its groups found by their places.
#[derive(Debug)]
struct ByPlaceExec(AggregateExec);

impl DisplayAs for ByPlaceExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "by place: ")?;
        self.0.fmt_as(kind, f)
    }
}

impl ExecutionPlan for ByPlaceExec {
    fn name(&self) -> &'static str {
        "ByPlaceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.0.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = Arc::new(self.0.clone()).replace_children(children, options)?;
        match plan.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Ok(Arc::new(ByPlaceExec(aggregate.clone()))),
            None => internal_err!("an aggregate with other inputs is no aggregate any more"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if !matches!(context.memory_pool().memory_limit(), MemoryLimit::Infinite) {
            return self.0.execute(partition, context);
        }
        let mut table = Table::new(&self.0)?;
        let batch_rows = context.session_config().batch_size();
        let mut input = self.0.input().execute(partition, context)?;
        let groups = async move {
            while let Some(rows) = input.try_next().await? {
                table.add(&rows)?;
            }
            let groups = table.finish()?;
            let batches = (0..groups.num_rows())
                .step_by(batch_rows)
                .map(move |at| Ok(groups.slice(at, batch_rows.min(groups.num_rows() - at))));
            Ok::<_, DataFusionError>(stream::iter(batches))
        };
        let groups = stream::once(groups).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), groups)))
    }
}
