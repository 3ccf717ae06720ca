//! Windows over partitions, some partitions at a time.
//!
//! DataFusion's operator for windows that look at a whole partition keeps all rows of its input. These are sorted by
//! partition, so that those of the partitions that are complete can be computed, and handed on, before the rest comes.

use super::read_once::{ReadOnceExec, with_reservation};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{concat, partition};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// How many rows are gathered, if there are as many of complete partitions.
const GATHERED: usize = 32_768;

/// The window, over some partitions at a time.
#[derive(Debug)]
pub(super) struct WindowInPartsExec {
    window: WindowAggExec,
    keys: Vec<Arc<dyn PhysicalExpr>>,
}

impl WindowInPartsExec {
    /// The same window, if it has partitions.
    pub fn of(window: &WindowAggExec) -> Option<WindowInPartsExec> {
        let mut keys = window.window_expr().iter().map(|window| window.partition_by().to_vec());
        let first = keys.next().filter(|keys| !keys.is_empty())?;
        let alike = keys.all(|keys| keys == first);
        alike.then(|| WindowInPartsExec { window: window.clone(), keys: first })
    }
}

impl DisplayAs for WindowInPartsExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.window.fmt_as(kind, f)
    }
}

impl ExecutionPlan for WindowInPartsExec {
    fn name(&self) -> &'static str {
        "WindowInPartsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.window.children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.window.maintains_input_order()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.window.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => {
                let window = over(&self.window, input)?;
                Ok(Arc::new(WindowInPartsExec { window, keys: self.keys.clone() }))
            }
            _ => internal_err!("a window is over one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("Window").with_can_spill(true).register(context.memory_pool());
        let partitions = Partitions {
            input: self.window.input().execute(partition, Arc::clone(&context))?,
            keys: self.keys.clone(),
            rows: vec![],
            count: 0,
            memory,
            over: false,
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
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows.try_flatten())))
    }
}

fn over(window: &WindowAggExec, input: Arc<dyn ExecutionPlan>) -> Result<WindowAggExec> {
    WindowAggExec::try_new(window.window_expr().to_vec(), input, !window.partition_keys().is_empty())
}

/// Rows in the order of their partitions.
struct Partitions {
    input: SendableRecordBatchStream,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows that have come, those of the last partition not all of them.
    rows: Vec<RecordBatch>,
    count: usize,
    memory: MemoryReservation,
    over: bool,
}

impl Partitions {
    /// The rows of partitions that are complete, and what they take.
    async fn next(&mut self) -> Result<Option<(Vec<RecordBatch>, MemoryReservation)>> {
        while !self.over {
            let Some(rows) = self.input.try_next().await? else {
                self.over = true;
                break;
            };
            if rows.num_rows() == 0 {
                continue;
            }
            let last = self.last_partition(&rows)?;
            // What is computed of them is kept beside them. A partition is kept whole, whatever it takes.
            self.memory.grow(2 * get_record_batch_memory_size(&rows));
            let Some(last) = last.filter(|last| self.count + last >= GATHERED) else {
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

    /// Where the last partition of these rows begins; none if it is that of the rows before them.
    fn last_partition(&self, rows: &RecordBatch) -> Result<Option<usize>> {
        let keys = keys(&self.keys, rows)?;
        let begins = partition(&keys)?.ranges().last().map_or(0, |last| last.start);
        if begins > 0 {
            return Ok(Some(begins));
        }
        let Some(before) = self.rows.last() else { return Ok(Some(0)) };
        let before = self::keys(&self.keys, &before.slice(before.num_rows() - 1, 1))?;
        let pairs = before.iter().zip(&keys).map(|(a, b)| Ok(concat(&[a.as_ref(), b.slice(0, 1).as_ref()])?));
        let same = partition(&pairs.collect::<Result<Vec<_>>>()?)?.len() == 1;
        Ok((!same).then_some(0))
    }
}

fn keys(keys: &[Arc<dyn PhysicalExpr>], rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    keys.iter().map(|key| key.evaluate(rows)?.into_array(rows.num_rows())).collect()
}
