//! The observer: a node above a node that counts what comes out of that.

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

/// What came out of an operator, over all channels.
#[derive(Debug, Default)]
pub(crate) struct Count {
    rows: AtomicU64,
    /// In it and in all below it.
    nanoseconds: AtomicU64,
}

impl Count {
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub fn nanoseconds(&self) -> u64 {
        self.nanoseconds.load(Ordering::Relaxed)
    }
}

/// What moved along an edge between stages, every copy counted.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl Moved {
    /// Takes notice of rows on their way to one of the targets.
    pub fn add(&self, rows: &RecordBatch) {
        let bytes = |column: &datafusion::arrow::array::ArrayRef| {
            column.to_data().get_slice_memory_size().unwrap_or_default() as u64
        };
        self.rows.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(rows.columns().iter().map(bytes).sum(), Ordering::Relaxed);
    }

    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The plan with an observer above every node. A query that reads its own rows is left alone: it has to find them.
pub(crate) fn observed(plan: LogicalPlan) -> Result<LogicalPlan> {
    if plan.exists(|node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_))))? {
        return Ok(plan);
    }
    let mut number = 0;
    plan.transform_up(|input| {
        number += 1;
        let node = Observed { number, count: Arc::default(), input };
        Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
    })
    .data()
}

/// An observer, as a node of a stage's plan.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    /// Observers of one plan have different ones.
    number: usize,
    pub count: Arc<Count>,
    pub input: LogicalPlan,
}

impl PartialEq for Observed {
    fn eq(&self, other: &Observed) -> bool {
        (self.number, &self.input) == (other.number, &other.input)
    }
}

impl Eq for Observed {}

impl std::hash::Hash for Observed {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.number, &self.input).hash(state);
    }
}

impl PartialOrd for Observed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (self == other).then_some(std::cmp::Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for Observed {
    fn name(&self) -> &str {
        "Observed"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Observed {}", self.number)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(Observed { input, ..self.clone() }),
            _ => internal_err!("an observer has one input"),
        }
    }
}

/// The same, as a node of the physical plan.
#[derive(Debug, Clone)]
pub(crate) struct ObservedExec {
    pub input: Arc<dyn ExecutionPlan>,
    pub count: Arc<Count>,
}

impl DisplayAs for ObservedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ObservedExec")
    }
}

impl ExecutionPlan for ObservedExec {
    fn name(&self) -> &'static str {
        "ObservedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
            (Some(input), true) => Ok(Arc::new(ObservedExec { input, count: self.count.clone() })),
            _ => internal_err!("an observer has one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        Ok(Box::pin(Counting { rows, count: Arc::clone(&self.count) }))
    }
}

struct Counting {
    rows: SendableRecordBatchStream,
    count: Arc<Count>,
}

impl Stream for Counting {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let since = Instant::now();
        let polled = self.rows.poll_next_unpin(context);
        self.count.nanoseconds.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
        if let Poll::Ready(Some(Ok(rows))) = &polled {
            self.count.rows.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        }
        polled
    }
}

impl RecordBatchStream for Counting {
    fn schema(&self) -> datafusion::arrow::datatypes::SchemaRef {
        self.rows.schema()
    }
}
