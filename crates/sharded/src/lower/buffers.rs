//! The texts that a join keeps, in few buffers.
//!
//! A column of texts refers to the buffers that hold them, and whatever is taken from it refers to all of these. A join puts
//! the batches of one side together, buffers and all, so that each batch it gives refers to the buffers of all of them; where
//! joins feed joins these numbers multiply. Texts that fill little of their buffers are copied before they are kept.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch};
use datafusion::arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// A buffer that a batch fills less of is not worth the reference that each batch of the join would have to it.
const WORTHWHILE: usize = 4096;

/// Puts texts into few buffers wherever a join is about to keep them. It comes after the rules that look at joins.
#[derive(Debug)]
pub(super) struct FewBuffers;

impl PhysicalOptimizerRule for FewBuffers {
    fn name(&self) -> &str {
        "few_buffers"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match kept(&plan) {
            Some(side) => {
                let mut children: Vec<_> = plan.children().into_iter().cloned().collect();
                children[0] = Arc::new(FewBuffersExec(Arc::clone(side)));
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
                Ok(Transformed::yes(plan.replace_children(children, options)?))
            }
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

/// The side of a join that it keeps, if there are texts in it.
fn kept(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let keeps = plan.is::<HashJoinExec>() || plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>();
    let side = plan.children().into_iter().next().filter(|_| keeps)?;
    let texts = |kind: &DataType| matches!(kind, DataType::Utf8View | DataType::BinaryView);
    side.schema().fields().iter().any(|field| texts(field.data_type())).then_some(side)
}

/// The same rows, with texts in few buffers.
#[derive(Debug)]
struct FewBuffersExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for FewBuffersExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "FewBuffersExec")
    }
}

impl ExecutionPlan for FewBuffersExec {
    fn name(&self) -> &'static str {
        "FewBuffersExec"
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
            (Some(input), true) => Ok(Arc::new(FewBuffersExec(input))),
            _ => internal_err!("rows that are kept come from one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.0.execute(partition, context)?.map(|rows| in_few_buffers(rows?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

fn in_few_buffers(rows: RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => few(column, column.as_string_view()),
        DataType::BinaryView => few(column, column.as_binary_view()),
        _ => Arc::clone(column),
    });
    Ok(RecordBatch::try_new(rows.schema(), columns.collect())?)
}

fn few<T: ByteViewType>(column: &ArrayRef, texts: &GenericByteViewArray<T>) -> ArrayRef {
    let buffers = texts.data_buffers().len();
    match buffers > 0 && texts.total_buffer_bytes_used() < buffers * WORTHWHILE {
        true => Arc::new(texts.gc()),
        false => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::StringViewArray;
    use datafusion::arrow::compute::concat;

    fn buffers(column: &ArrayRef) -> usize {
        column.as_string_view().data_buffers().len()
    }

    #[test]
    fn texts_that_fill_little_of_their_buffers_move_to_one() {
        let one: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("a text that is not short"), None, Some("short")]));
        let many = concat(&vec![one.as_ref(); 40]).unwrap();
        assert_eq!(buffers(&many), 40);
        let rows = RecordBatch::try_from_iter([("t", Arc::clone(&many))]).unwrap();
        let few = in_few_buffers(rows).unwrap();
        assert_eq!(buffers(few.column(0)), 1);
        assert_eq!(few.column(0), &many);
    }

    #[test]
    fn short_texts_need_no_buffer_and_long_ones_keep_theirs() {
        let all: ArrayRef = Arc::new(StringViewArray::from(vec!["short", "a text that is not short"]));
        let few = |column: &ArrayRef| few(column, column.as_string_view());
        assert_eq!(buffers(&few(&all.slice(0, 1))), 0);
        let long: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(WORTHWHILE)]));
        assert!(Arc::ptr_eq(&few(&long), &long));
    }
}
