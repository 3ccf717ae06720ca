//! Batches that hold the memory of their rows and no more.
//!
//! A slice of a large batch holds all of that, and a column of texts the buffers of all texts that were read with
//! them. Who keeps such batches keeps more than it counts, or counts more than it keeps.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, MutableArrayData, RecordBatch, RecordBatchOptions,
    make_array,
};
use datafusion::arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// A column is copied if it holds more than so many times the memory of its rows.
const TOO_MUCH: usize = 2;

/// The same rows, in batches that hold no more than these.
#[derive(Debug)]
pub(super) struct CompactExec(pub Arc<dyn ExecutionPlan>);

impl DisplayAs for CompactExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "CompactExec")
    }
}

impl ExecutionPlan for CompactExec {
    fn name(&self) -> &'static str {
        "CompactExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(CompactExec(input))),
            _ => internal_err!("rows that are sorted come from one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let most = context.session_config().batch_size();
        let rows = self.0.execute(partition, context)?;
        let parts = rows.map_ok(move |rows| {
            let count = rows.num_rows();
            let part = move |at| compact(&rows.slice(at, most.min(count - at)));
            stream::iter((0..count).step_by(most).map(part))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), parts.try_flatten().boxed())))
    }
}

/// The same rows, in memory of their own where that is less.
pub(super) fn compact(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => gathered(column, column.as_string_view()),
        DataType::BinaryView => gathered(column, column.as_binary_view()),
        _ => copied(column),
    });
    let count = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(rows.schema(), columns.collect(), &count)?)
}

fn is_too_much(held: usize, used: usize) -> bool {
    held > TOO_MUCH * used
}

/// Texts in a buffer of their own, if those that they are in are too large for them.
fn gathered<T: ByteViewType>(column: &ArrayRef, texts: &GenericByteViewArray<T>) -> ArrayRef {
    let buffers: usize = texts.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    let used = texts.total_buffer_bytes_used() + size_of_val(&texts.views()[..]);
    match is_too_much(buffers + texts.views().inner().capacity(), used) {
        true => Arc::new(texts.gc()),
        false => Arc::clone(column),
    }
}

/// A column in buffers of its own, if those that it is in are too large for it.
fn copied(column: &ArrayRef) -> ArrayRef {
    let data = column.to_data();
    // Of what cannot be counted nothing is copied.
    let used = data.get_slice_memory_size().unwrap_or(usize::MAX / TOO_MUCH);
    if !is_too_much(column.get_buffer_memory_size(), used) {
        return Arc::clone(column);
    }
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    match copy.try_extend(0, 0, data.len()) {
        Ok(()) => make_array(copy.freeze()),
        Err(_) => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, StringArray, StringViewArray};

    #[test]
    fn a_slice_holds_its_rows_only() {
        let texts = || (0..10_000).map(|i| format!("a text that is not short, number {i}"));
        let columns: [(&str, ArrayRef); 3] = [
            ("n", Arc::new(Int64Array::from_iter_values(0..10_000))),
            ("t", Arc::new(StringArray::from_iter_values(texts()))),
            ("v", Arc::new(StringViewArray::from_iter_values(texts()))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let slice = rows.slice(777, 100);
        let small = compact(&slice).unwrap();
        assert_eq!(small, slice);
        assert!(small.get_array_memory_size() < slice.get_array_memory_size() / 50);
        let same = compact(&rows).unwrap();
        assert!((0..2).all(|i| Arc::ptr_eq(same.column(i), rows.column(i))), "nothing is copied in vain");
    }
}
