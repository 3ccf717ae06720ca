//! The input of an operator that keeps batches: each holds the memory of its own rows and no more.

use crate::compact::compact;
use crate::unary::UnaryOperator;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;

/// The same rows, in batches that hold the memory of their own rows only.
#[derive(Debug, Clone)]
pub(super) struct Compact;

impl UnaryOperator for Compact {
    const NAME: &'static str = "CompactExec";

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let most = context.session_config().batch_size();
        let parts = input.execute(partition, context)?.map_ok(move |rows| {
            let count = rows.num_rows();
            let part = move |at| compact(&rows.slice(at, most.min(count - at)));
            stream::iter((0..count).step_by(most).map(part))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), parts.try_flatten().boxed())))
    }
}
