//! Window functions, computed some partitions at a time.
//!
//! DataFusion's operator for windows over whole partitions keeps all rows of its input. These are sorted by
//! partition, so the partitions that are complete can be computed and handed on before the rest comes.

use crate::program::read_once::{ReadOnceExec, with_reservation};
use crate::substitute::Substitute;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{concat, partition};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use futures::{TryStreamExt, stream};
use std::sync::Arc;

/// How many rows of complete partitions are computed at once, at least.
const MIN_ROWS: usize = 32_768;

/// A window operator that computes some partitions at a time.
#[derive(Debug)]
pub(super) struct PartitionedWindow {
    window: WindowAggExec,
    keys: Vec<Arc<dyn PhysicalExpr>>,
}

impl PartitionedWindow {
    /// The same window operator, if all of its functions have the same partitions.
    pub fn of(window: &WindowAggExec) -> Option<PartitionedWindow> {
        let mut keys = window.window_expr().iter().map(|window| window.partition_by().to_vec());
        let first = keys.next().filter(|keys| !keys.is_empty())?;
        let same_partitions = keys.all(|keys| keys == first);
        same_partitions.then(|| PartitionedWindow { window: window.clone(), keys: first })
    }
}

impl Substitute for PartitionedWindow {
    const NAME: &'static str = "PartitionedWindowExec";

    type Original = WindowAggExec;

    fn original(&self) -> &WindowAggExec {
        &self.window
    }

    fn with_children(
        &self,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<PartitionedWindow> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => {
                Ok(PartitionedWindow { window: over(&self.window, input)?, keys: self.keys.clone() })
            }
            _ => internal_err!("a window is over one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("Window").with_can_spill(true).register(context.memory_pool());
        let partitions = PartitionReader {
            input: self.window.input().execute(partition, Arc::clone(&context))?,
            keys: self.keys.clone(),
            rows: vec![],
            count: 0,
            memory,
            ended: false,
        };
        let window = self.window.clone();
        let rows = stream::try_unfold(partitions, move |mut partitions| {
            let (window, context) = (window.clone(), Arc::clone(&context));
            async move {
                let Some((rows, memory)) = partitions.next().await? else { return Ok(None) };
                let input = Arc::new(ReadOnceExec::part_of(window.input(), rows));
                let rows = over(&window, input)?.execute(0, context)?;
                Ok::<_, DataFusionError>(Some((with_reservation(rows, memory), partitions)))
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.window.schema(), rows.try_flatten())))
    }
}

/// The window operator over another input.
fn over(window: &WindowAggExec, input: Arc<dyn ExecutionPlan>) -> Result<WindowAggExec> {
    WindowAggExec::try_new(window.window_expr().to_vec(), input, !window.partition_keys().is_empty())
}

/// Reads complete partitions from an input that is sorted by partition.
struct PartitionReader {
    input: SendableRecordBatchStream,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The rows that were read and not handed on. The last partition may be incomplete.
    rows: Vec<RecordBatch>,
    /// How many these are.
    count: usize,
    memory: MemoryReservation,
    /// Whether the input has ended.
    ended: bool,
}

impl PartitionReader {
    /// The rows of some complete partitions, and the reservation for them.
    async fn next(&mut self) -> Result<Option<(Vec<RecordBatch>, MemoryReservation)>> {
        while !self.ended {
            let Some(rows) = self.input.try_next().await? else {
                self.ended = true;
                break;
            };
            if rows.num_rows() == 0 {
                continue;
            }
            let last = self.last_partition(&rows)?;
            // The results are kept with the rows. A partition is kept as a whole, however large it is.
            self.memory.grow(2 * get_record_batch_memory_size(&rows));
            let Some(last) = last.filter(|last| self.count + last >= MIN_ROWS) else {
                self.count += rows.num_rows();
                self.rows.push(rows);
                continue;
            };
            if last > 0 {
                self.rows.push(rows.slice(0, last));
            }
            let complete = std::mem::take(&mut self.rows);
            self.count = rows.num_rows() - last;
            self.rows.push(rows.slice(last, self.count));
            let memory = self.memory.take();
            self.memory.grow(2 * get_record_batch_memory_size(&rows));
            return Ok(Some((complete, memory)));
        }
        match self.rows.is_empty() {
            true => Ok(None),
            false => Ok(Some((std::mem::take(&mut self.rows), self.memory.take()))),
        }
    }

    /// The first row of the last partition in these rows; none if that is also the last partition of the rows
    /// before.
    fn last_partition(&self, rows: &RecordBatch) -> Result<Option<usize>> {
        let keys = keys(&self.keys, rows)?;
        let start = partition(&keys)?.ranges().last().map_or(0, |last| last.start);
        if start > 0 {
            return Ok(Some(start));
        }
        let Some(before) = self.rows.last() else { return Ok(Some(0)) };
        let before = self::keys(&self.keys, &before.slice(before.num_rows() - 1, 1))?;
        let pairs = before.iter().zip(&keys).map(|(a, b)| Ok(concat(&[a.as_ref(), b.slice(0, 1).as_ref()])?));
        let same = partition(&pairs.collect::<Result<Vec<_>>>()?)?.len() == 1;
        Ok((!same).then_some(0))
    }
}

/// The values of the partition keys.
fn keys(keys: &[Arc<dyn PhysicalExpr>], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    keys.iter().map(|key| key.evaluate(rows)?.into_array(rows.num_rows())).collect()
}
