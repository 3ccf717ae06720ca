//! The branches of a union, one after the other.
//!
//! DataFusion makes a partition of each branch, and whatever brings partitions together takes rows as they arrive.
//! Here a union has one partition from the start, so that the whole plan has one: the order of its rows depends
//! on nothing but its inputs, and no operator above waits for partitions that nobody reads yet, as a join does
//! that tells its probe side which rows it wants.

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// Puts the branches of every union one after the other. It comes before the rules that look at partitions and
/// orders.
#[derive(Debug)]
pub(super) struct BranchesInOrder;

impl PhysicalOptimizerRule for BranchesInOrder {
    fn name(&self) -> &str {
        "branches_in_order"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            if !plan.is::<UnionExec>() {
                return Ok(Transformed::no(plan));
            }
            let ordered: Arc<dyn ExecutionPlan> = Arc::new(InOrderExec::new(plan));
            Ok(Transformed::yes(ordered))
        })
        .data()
    }
}

/// The partitions of its input, one after the other.
#[derive(Debug, Clone)]
struct InOrderExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    fetch: Option<usize>,
}

impl InOrderExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> InOrderExec {
        let mut properties = PlanProperties::clone(input.properties());
        // An order of each partition is no order of all.
        properties.set_eq_properties(EquivalenceProperties::new(input.schema()));
        let properties = Arc::new(properties.with_partitioning(Partitioning::UnknownPartitioning(1)));
        InOrderExec { input, properties, fetch: None }
    }
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "InOrderExec")
    }
}

impl ExecutionPlan for InOrderExec {
    fn name(&self) -> &'static str {
        "InOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(InOrderExec { fetch: self.fetch, ..InOrderExec::new(input) })),
            _ => internal_err!("InOrderExec has one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn child_stats_requests(&self, _partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(inputs[0].as_ref().clone().with_fetch(self.fetch, 0, 1)?))
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }

    /// A limit of its branches, each by itself, is no limit of them all: it stays here, as `fetch`.
    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(InOrderExec { fetch, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("InOrderExec has one partition, not number {partition}");
        }
        let partitions = self.input.output_partitioning().partition_count();
        let streams =
            (0..partitions).map(|p| self.input.execute(p, context.clone())).collect::<Result<Vec<_>>>()?;
        let rows = stream::iter(streams).flatten().scan(self.fetch.unwrap_or(usize::MAX), |left, rows| {
            let taken = rows.map(|rows: RecordBatch| rows.slice(0, rows.num_rows().min(*left)));
            let more = *left > 0;
            *left -= taken.as_ref().map_or(0, |rows| rows.num_rows());
            std::future::ready(more.then_some(taken))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
