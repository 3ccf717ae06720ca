//! Sorts of rows that fit into memory.
//!
//! DataFusion sorts each batch, and merges them row by row. Here all rows are read, their keys become
//! numbers, and these are sorted. Then rows are copied twice: within their batch, so that they lie in the
//! order in which they leave, and into the batch in which they leave. Both read memory that lies close
//! together; one copy to the final place waits for memory at each value, and takes longer. Rows that are
//! equal keep the order in which they came.
//!
//! Rows for which there is not enough memory are sorted by DataFusion, which writes sorted parts to files.

mod keys;
mod order;

use super::read_once::{ReadOnceExec, with_reservation};
use crate::compact::compact;
use crate::substitute::{Substitute, SubstituteExec};
use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use futures::{StreamExt, TryStreamExt, stream};
use keys::Keys;
use order::{Order, Pauses};
use std::sync::Arc;
use whimbrel_temporal::places;

/// Under a limit, a sort that needs more than one part in so many of the memory writes files: rows that are
/// held until the last of them has left are missed by the merges of others.
const LIMITED_PART: usize = 8;

/// The bytes that a row takes beside its columns and its key, while it is sorted.
const ROW: usize = 40;

/// Replaces the sorts of a plan. No optimizer rule may run after this.
///
/// # Errors
/// If an operator cannot be rebuilt.
pub(super) fn with_sorts_in_memory(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| Ok(Transformed::yes(in_memory(plan)?))).data()
}

/// A sort that stays in memory as long as there is some, in place of one of all rows, by columns that have a
/// row format. Other operators stay as they are.
///
/// # Errors
/// If a sort has a column that its input does not have.
pub(super) fn in_memory(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(sort) = plan.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) else {
        return Ok(plan);
    };
    let schema = sort.input().schema();
    let field =
        |key: &PhysicalSortExpr| Ok(SortField::new_with_options(key.expr.data_type(&schema)?, key.options));
    let fields = sort.expr().iter().map(field).collect::<Result<Vec<_>>>()?;
    match RowConverter::supports_fields(&fields) {
        true => Ok(Arc::new(SubstituteExec(SortInMemory { sort: sort.clone(), fields }))),
        false => Ok(plan),
    }
}

/// A sort of all rows.
#[derive(Debug, Clone)]
struct SortInMemory {
    sort: SortExec,
    fields: Vec<SortField>,
}

/// What a sort has read.
enum Input {
    /// All rows.
    Whole(SortedRows),
    /// Some rows, for which there is no memory, and others that follow.
    Part(Vec<RecordBatch>, SendableRecordBatchStream),
}

impl SortInMemory {
    /// Reads rows as long as there is memory, and sorts them if these are all.
    async fn read(
        &self,
        mut input: SendableRecordBatchStream,
        memory: &MemoryReservation,
        most: usize,
    ) -> Result<Input> {
        let converter = RowConverter::new(self.fields.clone())?;
        let (mut batches, mut keys) = (Vec::new(), Keys::default());
        while let Some(batch) = input.try_next().await? {
            if batch.num_rows() == 0 {
                continue;
            }
            let column = |key: &PhysicalSortExpr| -> Result<ArrayRef> {
                key.expr.evaluate(&batch)?.into_array(batch.num_rows())
            };
            let columns = self.sort.expr().iter().map(column).collect::<Result<Vec<_>>>()?;
            let rows = converter.convert_columns(&columns)?;
            let needed = get_record_batch_memory_size(&batch) + rows.size() + ROW * batch.num_rows();
            batches.push(batch);
            if memory.size() + needed > most || memory.try_grow(needed).is_err() {
                return Ok(Input::Part(batches, input));
            }
            keys.push(rows);
        }
        keys.finish();
        let Order { batches: order, rows } = Order::of(keys, batches.len()).await;
        let mut pauses = Pauses::default();
        for (batch, rows) in batches.iter_mut().zip(rows) {
            pauses.pause(rows.len()).await;
            *batch = compact(&places::take(batch, &UInt32Array::from(rows))?)?;
        }
        let held = batches.iter().map(get_record_batch_memory_size).sum::<usize>();
        memory.shrink(memory.size().saturating_sub(held + order.len() * size_of::<u32>()));
        let next = vec![0; batches.len()];
        Ok(Input::Whole(SortedRows { batches, order: order.into_iter(), next }))
    }

    /// The rows in their order.
    async fn run(
        self,
        input: SendableRecordBatchStream,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let pool = context.memory_pool();
        let memory = MemoryConsumer::new("Sort").with_can_spill(true).register(pool);
        let most = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / LIMITED_PART,
            _ => usize::MAX,
        };
        match self.read(input, &memory, most).await? {
            Input::Whole(sorted) => {
                let most = context.session_config().batch_size();
                let rows = stream::try_unfold(sorted, move |mut sorted| async move {
                    Ok(sorted.next(most)?.map(|rows| (rows, sorted)))
                });
                let rows = RecordBatchStreamAdapter::new(self.sort.schema(), rows);
                Ok(with_reservation(Box::pin(rows), memory))
            }
            Input::Part(rows, others) => {
                drop(memory);
                let rows = stream::iter(rows.into_iter().map(Ok)).chain(others);
                let rows = RecordBatchStreamAdapter::new(self.sort.input().schema(), rows);
                let input = Arc::new(ReadOnceExec::stream(Box::pin(rows)));
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                Arc::new(self.sort).replace_children(vec![input], options)?.execute(0, context)
            }
        }
    }
}

impl Substitute for SortInMemory {
    const NAME: &'static str = "SortInMemoryExec";

    type Original = SortExec;

    fn original(&self) -> &SortExec {
        &self.sort
    }

    fn with_children(
        &self,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<SortInMemory> {
        let sort = Arc::new(self.sort.clone()).replace_children(children, options)?;
        match sort.downcast_ref::<SortExec>() {
            Some(sort) => Ok(SortInMemory { sort: sort.clone(), ..self.clone() }),
            None => internal_err!("a sort over another input is no sort"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.sort.input().execute(partition, Arc::clone(&context))?;
        let rows = stream::once(self.clone().run(input, context)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.sort.schema(), rows)))
    }
}

/// Sorted rows on their way out.
struct SortedRows {
    /// Batches of rows, each in the order in which they leave.
    batches: Vec<RecordBatch>,
    /// The batches of the rows that are still to leave.
    order: std::vec::IntoIter<u32>,
    /// The next row of each batch.
    next: Vec<usize>,
}

impl SortedRows {
    /// The next rows, at most so many; none at the end.
    fn next(&mut self, most: usize) -> Result<Option<RecordBatch>, DataFusionError> {
        let next = &mut self.next;
        let place = |batch: u32| {
            let row = &mut next[batch as usize];
            *row += 1;
            (batch as usize, *row - 1)
        };
        let places: Vec<(usize, usize)> = self.order.by_ref().take(most).map(place).collect();
        if places.is_empty() {
            return Ok(None);
        }
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        Ok(Some(compact(&places::interleave(&batches, &places)?)?))
    }
}
