//! String views in few buffers, on the side of a join that is kept.
//!
//! A column of string views refers to the buffers that hold the strings, and whatever is taken from it refers
//! to all of these. A join concatenates the batches of its build side, so each batch it makes refers to the
//! buffers of all of them. Where joins feed joins these numbers multiply. And a few strings of a page keep
//! all of it in memory. So columns that use little of their buffers are copied before a join keeps them.

use crate::compact::compact_strings_of;
use crate::unary::{UnaryExec, UnaryOperator};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch};
use datafusion::arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use futures::StreamExt;
use std::sync::Arc;

/// A column that uses fewer bytes of each of its buffers is copied, on average over them.
const WORTHWHILE: usize = 4096;

/// Compacts string views below every join that keeps them. It runs after the rules that look at joins.
#[derive(Debug)]
pub(super) struct CompactStringViews;

impl PhysicalOptimizerRule for CompactStringViews {
    fn name(&self) -> &str {
        "compact_string_views"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match build_side_with_views(&plan) {
            Some(side) => {
                let mut children: Vec<_> = plan.children().into_iter().cloned().collect();
                children[0] = Arc::new(UnaryExec::new(CompactViews, Arc::clone(side)));
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
                Ok(Transformed::yes(plan.replace_children(children, options)?))
            }
            None => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

/// The build side of a join, if it has string views.
fn build_side_with_views(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let is_join = plan.is::<HashJoinExec>() || plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>();
    let side = plan.children().into_iter().next().filter(|_| is_join)?;
    let is_view = |kind: &DataType| matches!(kind, DataType::Utf8View | DataType::BinaryView);
    side.schema().fields().iter().any(|field| is_view(field.data_type())).then_some(side)
}

/// The same rows, with string views in few buffers.
#[derive(Debug, Clone)]
struct CompactViews;

impl UnaryOperator for CompactViews {
    const NAME: &'static str = "CompactViewsExec";

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = input.execute(partition, context)?.map(|rows| compact_views(rows?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), rows)))
    }
}

/// Copies the columns of a batch that use little of their buffers.
fn compact_views(rows: RecordBatch) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => compact_column(column, column.as_string_view()),
        DataType::BinaryView => compact_column(column, column.as_binary_view()),
        _ => Arc::clone(column),
    });
    Ok(RecordBatch::try_new(rows.schema(), columns.collect())?)
}

/// A column of views, copied if it uses few bytes of each of its buffers, or a small share of all.
fn compact_column<T: ByteViewType>(column: &ArrayRef, views: &GenericByteViewArray<T>) -> ArrayRef {
    let buffers = views.data_buffers().len();
    match buffers > 0 && views.total_buffer_bytes_used() < buffers * WORTHWHILE {
        true => Arc::new(views.gc()),
        false => compact_strings_of(column, views),
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
    fn views_that_use_little_of_their_buffers_move_to_one() {
        let one: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("a string that is not short"), None, Some("short")]));
        let many = concat(&vec![one.as_ref(); 40]).unwrap();
        assert_eq!(buffers(&many), 40);
        let rows = RecordBatch::try_from_iter([("t", Arc::clone(&many))]).unwrap();
        let compact = compact_views(rows).unwrap();
        assert_eq!(buffers(compact.column(0)), 1);
        assert_eq!(compact.column(0), &many);
    }

    #[test]
    fn short_strings_need_no_buffer_and_long_ones_keep_theirs() {
        let all: ArrayRef = Arc::new(StringViewArray::from(vec!["short", "a string that is not short"]));
        let compact = |column: &ArrayRef| compact_column(column, column.as_string_view());
        assert_eq!(buffers(&compact(&all.slice(0, 1))), 0);
        let long: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(2 * WORTHWHILE)]));
        assert!(Arc::ptr_eq(&compact(&long), &long));
    }
}
