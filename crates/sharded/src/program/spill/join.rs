//! Joins whose kept side does not fit into the memory: rows of both sides go to files by the hash of their keys, and
//! what has the same hash is joined, part by part.
//!
//! Rows with equal keys are in the same part, so every kind of join is the union of the joins of its parts. Only
//! `not in` is not: a null anywhere on the right leaves no row. Joins that promise an order are left alone, too.

use super::compact::compact;
use super::file::Parts;
use super::read_once::{InContext, ReadOnceExec, with_reservation};
use crate::lower::session;
use crate::unary::UnaryExec;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{NullEquality, Result, internal_err, resources_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// How often parts are divided again. If there are still too many rows in one then, most of them have the same key.
const DEEPEST: u32 = 5;

/// What a table of a join takes for each row.
const TABLE_ROW: usize = 24;

/// A join that can do with little memory.
#[derive(Debug)]
pub(super) struct SpillingJoinExec(HashJoinExec);

impl SpillingJoinExec {
    /// The same join, if it can be computed part by part.
    pub fn of(join: &HashJoinExec) -> Result<Option<SpillingJoinExec>> {
        let whole = join.null_aware
            || join.fetch().is_some()
            || *join.partition_mode() != PartitionMode::CollectLeft
            || join.properties().output_ordering().is_some();
        if whole {
            return Ok(None);
        }
        Ok(Some(SpillingJoinExec(join.builder().build()?)))
    }
}

impl DisplayAs for SpillingJoinExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt_as(kind, f)
    }
}

impl ExecutionPlan for SpillingJoinExec {
    fn name(&self) -> &'static str {
        "SpillingJoinExec"
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
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.0.builder().recompute_properties().with_new_children(children)?;
        Ok(Arc::new(SpillingJoinExec(join.build()?)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    /// A recursive query runs it again and again: it may not remember the rows that it kept before.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(SpillingJoinExec(self.0.builder().reset_state().build()?)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a join has one partition, not number {partition}");
        }
        let left = self.0.left().execute(0, Arc::clone(&context))?;
        let input = Arc::clone(self.0.right());
        let right = Arc::new(UnaryExec::new(InContext(Arc::clone(&context)), input));
        let join =
            Arc::new(Join { join: self.0.builder().build()?, unlimited: unlimited(&context), context });
        let rows = stream::once(join.run(left, right, 0)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// The same context without a limit, for what is counted already.
fn unlimited(context: &TaskContext) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        None,
        context.session_id(),
        context.session_config().clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        session().runtime_env().clone(),
    ))
}

/// A join that runs.
struct Join {
    join: HashJoinExec,
    context: Arc<TaskContext>,
    unlimited: Arc<TaskContext>,
}

impl Join {
    /// Joins rows that have been divided `depth` times.
    fn run(
        self: Arc<Self>,
        mut left: SendableRecordBatchStream,
        right: Arc<dyn ExecutionPlan>,
        depth: u32,
    ) -> BoxFuture<'static, Result<SendableRecordBatchStream>> {
        async move {
            let consumer = MemoryConsumer::new("HashJoin").with_can_spill(true);
            let memory = consumer.register(self.context.memory_pool());
            let mut kept = Vec::new();
            while let Some(rows) = left.try_next().await? {
                let rows = compact(&rows)?;
                let fits = memory.try_grow(needed(&rows));
                kept.push(rows);
                if let Err(error) = fits {
                    if depth == DEEPEST {
                        return resources_err!(
                            "the rows of one key of a join are too many for the memory: {}",
                            error.message()
                        );
                    }
                    return self.divided(kept, left, right, depth, memory).await;
                }
            }
            self.joined(kept, right, depth, memory)
        }
        .boxed()
    }

    /// Joins rows that fit.
    fn joined(
        &self,
        left: Vec<RecordBatch>,
        right: Arc<dyn ExecutionPlan>,
        depth: u32,
        memory: MemoryReservation,
    ) -> Result<SendableRecordBatchStream> {
        let left = Arc::new(ReadOnceExec::batches(self.join.left().schema(), left));
        let join = match depth {
            0 => self.join.builder(),
            // What the join has learned of its left side, and filters the right side by, holds for the whole join
            // only.
            _ => self.join.builder().reset_state(),
        };
        let join = join.recompute_properties().with_new_children(vec![left, right])?.build()?;
        Ok(with_reservation(join.execute(0, Arc::clone(&self.unlimited))?, memory))
    }

    /// Divides the rows of both sides, and joins part after part.
    async fn divided(
        self: Arc<Self>,
        kept: Vec<RecordBatch>,
        mut left: SendableRecordBatchStream,
        right: Arc<dyn ExecutionPlan>,
        depth: u32,
        memory: MemoryReservation,
    ) -> Result<SendableRecordBatchStream> {
        let disk = Arc::clone(&self.context.runtime_env().disk_manager);
        let (left_keys, right_keys) = self.join.on().iter().cloned().unzip();
        let nulls_apart = self.join.null_equality() == NullEquality::NullEqualsNothing;
        let mut lefts = Parts::new(left.schema(), left_keys, nulls_apart, depth);
        for rows in kept {
            lefts.add(&rows, &disk)?;
        }
        memory.free();
        while let Some(rows) = left.try_next().await? {
            lefts.add(&rows, &disk)?;
        }
        drop(left);
        let mut right = right.execute(0, Arc::clone(&self.context))?;
        let mut rights = Parts::new(right.schema(), right_keys, nulls_apart, depth);
        while let Some(rows) = right.try_next().await? {
            rights.add(&rows, &disk)?;
        }
        drop(right);
        let (lefts, rights) = (lefts.finish(&disk)?, rights.finish(&disk)?);
        let schema = self.join.schema();
        let parts = stream::iter(lefts.into_iter().zip(rights)).then(move |(left, right)| {
            Arc::clone(&self).run(left, Arc::new(ReadOnceExec::stream(right)), depth + 1)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, parts.try_flatten())))
    }
}

/// What a join takes for rows that it keeps: they are put together, and found by a table.
fn needed(rows: &RecordBatch) -> usize {
    2 * get_record_batch_memory_size(rows) + TABLE_ROW * rows.num_rows()
}
