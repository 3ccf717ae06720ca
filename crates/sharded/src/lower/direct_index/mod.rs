//! Aggregates by one integer: groups are found in an array that the key indexes, instead of a hash table.
//!
//! Identifiers count from one and come roughly in order. So an array of all integers between the minimum and
//! the maximum is small, and rows that follow each other use entries near each other. A hash table is in
//! another cache line for each.
//!
//! Invariant: groups come out in the order in which their keys came first, as those of DataFusion's operator
//! do. Under a memory limit that operator does the work, because it can spill.

mod index;
mod table;

use crate::substitute::{Substitute, SubstituteExec};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode, ReplaceChildrenOptions};
use futures::{TryStreamExt, stream};
use std::sync::Arc;
use table::Table;

/// Replaces every aggregate that is [supported](supports) by one with a direct index. It runs after the rules
/// that look at aggregates.
#[derive(Debug)]
pub(super) struct DirectIndexAggregate;

impl PhysicalOptimizerRule for DirectIndexAggregate {
    fn name(&self) -> &str {
        "direct_index_aggregate"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match plan.downcast_ref::<AggregateExec>() {
            Some(aggregate) if supports(aggregate)? => {
                let indexed: Arc<dyn ExecutionPlan> =
                    Arc::new(SubstituteExec(IndexedAggregate(aggregate.clone())));
                Ok(Transformed::yes(indexed))
            }
            _ => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

/// Whether an aggregate is of unordered rows, by one integer, with functions that have accumulators for all
/// groups.
fn supports(aggregate: &AggregateExec) -> Result<bool> {
    let keys = aggregate.group_expr();
    let complete = matches!(aggregate.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned);
    let unordered = *aggregate.input_order_mode() == InputOrderMode::Linear;
    if !complete || !unordered || aggregate.limit_options().is_some() || !keys.is_single() {
        return Ok(false);
    }
    let [(key, _)] = keys.expr() else { return Ok(false) };
    Ok(index::supports(&key.data_type(&aggregate.input_schema())?)
        && aggregate.aggr_expr().iter().all(|call| call.groups_accumulator_supported()))
}

/// An aggregate with a direct index.
#[derive(Debug)]
struct IndexedAggregate(AggregateExec);

impl Substitute for IndexedAggregate {
    const NAME: &'static str = "DirectIndexExec";

    type Original = AggregateExec;

    fn original(&self) -> &AggregateExec {
        &self.0
    }

    fn with_children(
        &self,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<IndexedAggregate> {
        let plan = Arc::new(self.0.clone()).replace_children(children, options)?;
        match plan.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Ok(IndexedAggregate(aggregate.clone())),
            None => internal_err!("an aggregate with other inputs is no aggregate any more"),
        }
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
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.0.schema(), groups)))
    }
}
