//! Filters of relations, in place of DataFusion's.
//!
//! Rows are tested a batch of the session's size at a time, whatever came in, so that columns stay in the
//! nearest caches; they are copied once, unless few of a batch are left; and the predicate is the one that
//! [`specialize`](super::specialize) makes, while what other operators rely on is told by the original one.

use crate::substitute::{Substitute, SubstituteExec};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::{BatchCoalescer, prep_null_mask_filter};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use futures::{TryStreamExt, stream};
use std::sync::Arc;
use whimbrel_temporal::RowFilter;

/// A filter whose predicate is evaluated as `predicate`, which means the same; none if it stops after some
/// rows.
pub(super) fn filter(
    original: &FilterExec,
    predicate: Arc<dyn PhysicalExpr>,
) -> Option<Arc<dyn ExecutionPlan>> {
    let filter = SpecializedFilter { original: original.clone(), predicate };
    original.fetch().is_none().then(|| Arc::new(SubstituteExec(filter)) as Arc<dyn ExecutionPlan>)
}

/// See the module.
#[derive(Debug)]
struct SpecializedFilter {
    original: FilterExec,
    predicate: Arc<dyn PhysicalExpr>,
}

impl Substitute for SpecializedFilter {
    const NAME: &'static str = "SpecializedFilterExec";

    type Original = FilterExec;

    fn original(&self) -> &FilterExec {
        &self.original
    }

    fn with_children(
        &self,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<SpecializedFilter> {
        let plan = Arc::new(self.original.clone()).replace_children(children, options)?;
        match plan.downcast_ref::<FilterExec>() {
            Some(filter) => {
                Ok(SpecializedFilter { original: filter.clone(), predicate: Arc::clone(&self.predicate) })
            }
            None => internal_err!("a filter with another input is no filter any more"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.original.schema();
        let batch_rows = context.session_config().batch_size();
        let rows = Rows {
            input: self.original.input().execute(partition, context)?,
            predicate: Arc::clone(&self.predicate),
            projection: self.original.projection().as_ref().map(|columns| columns.to_vec()),
            batch_rows,
            coalescer: BatchCoalescer::new(Arc::clone(&schema), batch_rows)
                .with_biggest_coalesce_batch_size(Some(batch_rows / 4)),
            has_ended: false,
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::try_unfold(rows, Rows::next))))
    }
}

/// The rows of a partition that are kept.
struct Rows {
    input: SendableRecordBatchStream,
    predicate: Arc<dyn PhysicalExpr>,
    projection: Option<Vec<usize>>,
    batch_rows: usize,
    /// Puts what is left of several batches together.
    coalescer: BatchCoalescer,
    has_ended: bool,
}

impl Rows {
    /// The next batch, and the rows after it.
    async fn next(mut self) -> Result<Option<(RecordBatch, Rows)>> {
        loop {
            if let Some(batch) = self.coalescer.next_completed_batch() {
                return Ok(Some((batch, self)));
            }
            if self.has_ended {
                return Ok(None);
            }
            match self.input.try_next().await? {
                Some(batch) => self.filter(&batch)?,
                None => {
                    self.has_ended = true;
                    self.coalescer.finish_buffered_batch()?;
                }
            }
        }
    }

    /// Tests the rows of a batch.
    fn filter(&mut self, batch: &RecordBatch) -> Result<()> {
        for first in (0..batch.num_rows()).step_by(self.batch_rows) {
            let rows = batch.slice(first, self.batch_rows.min(batch.num_rows() - first));
            let holds = self.predicate.evaluate(&rows)?.into_array(rows.num_rows())?;
            let Some(holds) = holds.as_boolean_opt() else {
                return internal_err!("the condition {} is not a truth value", self.predicate);
            };
            let holds = match holds.null_count() {
                0 => holds.clone(),
                _ => prep_null_mask_filter(holds),
            };
            let rows = match &self.projection {
                Some(columns) => rows.project(columns)?,
                None => rows,
            };
            let kept = holds.values().count_set_bits();
            if kept == rows.num_rows() {
                self.coalescer.push_batch(rows)?;
            } else if kept > 0 {
                self.coalescer
                    .push_batch(RowFilter::new(holds.values(), rows.num_columns()).batch(&rows)?)?;
            }
        }
        Ok(())
    }
}
