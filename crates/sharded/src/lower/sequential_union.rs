//! The branches of a union, read one after the other.
//!
//! DataFusion makes a partition of each branch, and merges partitions in the order in which their rows
//! arrive. Here a union has one partition from the start, and so has the whole plan: the order of its rows
//! depends on its inputs only. No operator above waits for a partition that nobody reads yet, as a hash join
//! would that waits to send a filter to its probe side.

use crate::unary::{UnaryExec, UnaryOperator};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties};
use futures::{StreamExt, stream};
use std::sync::Arc;

/// Puts a [`Sequential`] operator above every union. It runs before the rules that look at partitions and
/// orders.
#[derive(Debug)]
pub(super) struct SequentialUnion;

impl PhysicalOptimizerRule for SequentialUnion {
    fn name(&self) -> &str {
        "sequential_union"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            if !plan.is::<UnionExec>() {
                return Ok(Transformed::no(plan));
            }
            let sequential: Arc<dyn ExecutionPlan> = Arc::new(UnaryExec::new(Sequential::default(), plan));
            Ok(Transformed::yes(sequential))
        })
        .data()
    }
}

/// All partitions of its input as one, one after the other.
#[derive(Debug, Clone, Default)]
struct Sequential {
    fetch: Option<usize>,
}

impl UnaryOperator for Sequential {
    const NAME: &'static str = "SequentialUnionExec";

    /// An order of each partition is no order of all.
    const KEEPS_ORDER: bool = false;

    fn properties(input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let mut properties = PlanProperties::clone(input.properties());
        properties.set_eq_properties(EquivalenceProperties::new(input.schema()));
        Arc::new(properties.with_partitioning(Partitioning::UnknownPartitioning(1)))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    /// A limit of each branch is no limit of all: it stays at the union.
    fn with_fetch(&self, fetch: Option<usize>) -> Option<Sequential> {
        Some(Sequential { fetch })
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("{} has one partition, not number {partition}", Self::NAME);
        }
        let partitions = input.output_partitioning().partition_count();
        let streams =
            (0..partitions).map(|p| input.execute(p, Arc::clone(&context))).collect::<Result<Vec<_>>>()?;
        let rows = stream::iter(streams).flatten().scan(self.fetch.unwrap_or(usize::MAX), |left, rows| {
            let limited = rows.map(|rows: RecordBatch| rows.slice(0, rows.num_rows().min(*left)));
            let more = *left > 0;
            *left -= limited.as_ref().map_or(0, |rows| rows.num_rows());
            std::future::ready(more.then_some(limited))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), rows)))
    }
}
