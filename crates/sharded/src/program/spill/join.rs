//! Joins whose build side does not fit into the memory: both sides are partitioned by the hash of their keys
//! into files, and joined partition by partition (a Grace hash join).
//!
//! Rows with equal keys are in the same partition, so a join is the union of the joins of its partitions.
//! `not in` is not: a null anywhere on the right leaves no row. It is left alone, and so are joins that
//! promise an order.

use super::partition::HashPartitions;
use crate::compact::compact;
use crate::lower::session;
use crate::program::read_once::{InContext, ReadOnceExec, with_reservation};
use crate::substitute::Substitute;
use crate::unary::UnaryExec;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{NullEquality, Result, internal_err, resources_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use std::collections::HashMap;
use std::sync::Arc;

/// How often a partition is partitioned again. If it is too large even then, most of its rows have the same
/// key.
const MAX_DEPTH: u32 = 5;

/// The bytes of a hash table for each row.
const TABLE_ROW: usize = 24;

/// A hash join that can spill.
#[derive(Debug)]
pub(super) struct SpillingJoin(HashJoinExec);

impl SpillingJoin {
    /// The same join, if it can be computed partition by partition.
    ///
    /// # Errors
    /// If the join cannot be rebuilt.
    pub fn of(join: &HashJoinExec) -> Result<Option<SpillingJoin>> {
        let indivisible = join.null_aware
            || join.fetch().is_some()
            || *join.partition_mode() != PartitionMode::CollectLeft
            || join.properties().output_ordering().is_some();
        if indivisible {
            return Ok(None);
        }
        Ok(Some(SpillingJoin(join.builder().build()?)))
    }
}

impl Substitute for SpillingJoin {
    const NAME: &'static str = "SpillingJoinExec";

    type Original = HashJoinExec;

    fn original(&self) -> &HashJoinExec {
        &self.0
    }

    fn with_children(
        &self,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<SpillingJoin> {
        let join = self.0.builder().recompute_properties().with_new_children(children)?;
        Ok(SpillingJoin(join.build()?))
    }

    fn reset(&self) -> Result<SpillingJoin> {
        Ok(SpillingJoin(self.0.builder().reset_state().build()?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("a join has one partition, not number {partition}");
        }
        let left = self.0.left().execute(0, Arc::clone(&context))?;
        let input = Arc::clone(self.0.right());
        let right = Arc::new(UnaryExec::new(InContext(Arc::clone(&context)), input));
        let join = Arc::new(PartitionedJoin {
            join: self.0.builder().build()?,
            unlimited: unlimited(&context),
            context,
        });
        let rows = stream::once(join.run(left, right, 0)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.0.schema(), rows)))
    }
}

/// The same context without a limit, for memory that is reserved already.
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

/// A join that runs, on all rows or on those of a partition.
struct PartitionedJoin {
    join: HashJoinExec,
    context: Arc<TaskContext>,
    unlimited: Arc<TaskContext>,
}

impl PartitionedJoin {
    /// Joins rows that have been partitioned `depth` times.
    fn run(
        self: Arc<Self>,
        mut left: SendableRecordBatchStream,
        right: Arc<dyn ExecutionPlan>,
        depth: u32,
    ) -> BoxFuture<'static, Result<SendableRecordBatchStream>> {
        async move {
            let consumer = MemoryConsumer::new("HashJoin").with_can_spill(true);
            let memory = consumer.register(self.context.memory_pool());
            let mut build = Vec::new();
            while let Some(rows) = left.try_next().await? {
                let rows = compact(&rows)?;
                let fits = memory.try_grow(table_memory(&rows));
                build.push(rows);
                if let Err(error) = fits {
                    if depth == MAX_DEPTH {
                        return resources_err!(
                            "the rows of one key of a join are too many for the memory: {}",
                            error.message()
                        );
                    }
                    return self.join_partitions(build, left, right, depth, memory).await;
                }
            }
            self.join_in_memory(build, right, depth, memory)
        }
        .boxed()
    }

    /// Joins a build side that fits into the memory.
    fn join_in_memory(
        &self,
        left: Vec<RecordBatch>,
        right: Arc<dyn ExecutionPlan>,
        depth: u32,
        memory: MemoryReservation,
    ) -> Result<SendableRecordBatchStream> {
        let left = Arc::new(ReadOnceExec::batches(self.join.left().schema(), left));
        let join = match depth {
            0 => self.join.builder(),
            // The dynamic filter on the right side is that of the whole join.
            _ => self.join.builder().reset_state(),
        };
        let join = join.recompute_properties().with_new_children(vec![left, right])?.build()?;
        Ok(with_reservation(join.execute(0, Arc::clone(&self.unlimited))?, memory))
    }

    /// Partitions both sides, and joins partition after partition.
    async fn join_partitions(
        self: Arc<Self>,
        build: Vec<RecordBatch>,
        mut left: SendableRecordBatchStream,
        right: Arc<dyn ExecutionPlan>,
        depth: u32,
        memory: MemoryReservation,
    ) -> Result<SendableRecordBatchStream> {
        let disk = Arc::clone(&self.context.runtime_env().disk_manager);
        let (left_keys, right_keys) = self.join.on().iter().cloned().unzip();
        let spread_nulls = self.join.null_equality() == NullEquality::NullEqualsNothing;
        let mut lefts = HashPartitions::new(left.schema(), left_keys, spread_nulls, depth);
        for rows in build {
            lefts.add(&rows, &disk)?;
        }
        memory.free();
        while let Some(rows) = left.try_next().await? {
            lefts.add(&rows, &disk)?;
        }
        drop(left);
        let mut right = right.execute(0, Arc::clone(&self.context))?;
        let mut rights = HashPartitions::new(right.schema(), right_keys, spread_nulls, depth);
        while let Some(rows) = right.try_next().await? {
            rights.add(&rows, &disk)?;
        }
        drop(right);
        let (lefts, rights) = (lefts.finish(&disk)?, rights.finish(&disk)?);
        let schema = self.join.schema();
        let partitions = stream::iter(lefts.into_iter().zip(rights)).then(move |(left, right)| {
            Arc::clone(&self).run(left, Arc::new(ReadOnceExec::stream(right)), depth + 1)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, partitions.try_flatten())))
    }
}

/// The memory that a join needs for rows of its build side: these, their concatenation, and a hash table.
fn table_memory(rows: &RecordBatch) -> usize {
    2 * get_record_batch_memory_size(rows) + TABLE_ROW * rows.num_rows()
}
