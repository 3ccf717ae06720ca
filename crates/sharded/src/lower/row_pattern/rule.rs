//! Row patterns over all partitions of an input at once.

use super::Matches;
use super::partitions::Partitions;
use crate::substitute::{Substitute, SubstituteExec};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{concat_batches, partition};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::window::StandardWindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use futures::{TryStreamExt, stream};
use std::sync::Arc;

/// Replaces windows that look for a pattern of rows. It runs after the rules that sort their inputs.
#[derive(Debug)]
pub(in crate::lower) struct RowPatternPartitions;

impl PhysicalOptimizerRule for RowPatternPartitions {
    fn name(&self) -> &str {
        "row_pattern_partitions"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| match plan.downcast_ref::<WindowAggExec>() {
            Some(window) if function(window).is_some() => {
                let replaced: Arc<dyn ExecutionPlan> = Arc::new(SubstituteExec(RowPatterns(window.clone())));
                Ok(Transformed::yes(replaced))
            }
            _ => Ok(Transformed::no(plan)),
        })
        .data()
    }
}

/// The row pattern that is the only function of a window.
fn function(window: &WindowAggExec) -> Option<(&WindowUDFExpr, &Matches)> {
    let [expr] = window.window_expr() else { return None };
    let standard: &StandardWindowExpr = expr.as_any().downcast_ref()?;
    let call: &WindowUDFExpr = standard.get_standard_func_expr().as_any().downcast_ref()?;
    Some((call, call.fun().inner().downcast_ref()?))
}

/// A window that looks for a pattern of rows.
#[derive(Debug)]
struct RowPatterns(WindowAggExec);

impl Substitute for RowPatterns {
    const NAME: &'static str = "RowPatternExec";

    type Original = WindowAggExec;

    fn original(&self) -> &WindowAggExec {
        &self.0
    }

    fn with_children(
        &self,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<RowPatterns> {
        let plan = Arc::new(self.0.clone()).replace_children(children, options)?;
        match plan.downcast_ref::<WindowAggExec>() {
            Some(window) => Ok(RowPatterns(window.clone())),
            None => internal_err!("a window with other inputs is no window any more"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let input = self.0.input().execute(partition, context)?;
        let window = self.0.clone();
        let rows = async move {
            let schema = input.schema();
            let batches: Vec<RecordBatch> = input.try_collect().await?;
            let rows = with_matches(&window, &concat_batches(&schema, &batches)?)?;
            let batches = (0..rows.num_rows())
                .step_by(batch_rows)
                .map(move |at| Ok(rows.slice(at, batch_rows.min(rows.num_rows() - at))));
            Ok::<_, DataFusionError>(stream::iter(batches))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.0.schema(), stream::once(rows).try_flatten())))
    }
}

/// Rows in the order of the window, with the matches that end at each.
fn with_matches(window: &WindowAggExec, rows: &RecordBatch) -> Result<RecordBatch> {
    let Some((call, matches)) = function(window) else {
        return internal_err!("a window looks for no pattern of rows any more");
    };
    let values = |exprs: &[Arc<dyn datafusion::physical_expr::PhysicalExpr>]| -> Result<Vec<ArrayRef>> {
        exprs.iter().map(|expr| expr.evaluate(rows)?.into_array(rows.num_rows())).collect()
    };
    let fields = call.args().iter().map(|argument| argument.return_field(&rows.schema()));
    let partitions = Partitions::new(matches.function()?, &fields.collect::<Result<Vec<_>>>()?)?;
    let keys: Vec<_> = window.partition_by_sort_keys()?.into_iter().map(|key| key.expr).collect();
    let ranges = match (rows.num_rows(), keys.is_empty()) {
        (0, _) => vec![],
        (all, true) => std::iter::once(0..all).collect(),
        (_, false) => partition(&values(&keys)?)?.ranges(),
    };
    let mut columns = rows.columns().to_vec();
    columns.push(partitions.matches(&values(call.args())?, &ranges)?);
    Ok(RecordBatch::try_new(window.schema(), columns)?)
}
