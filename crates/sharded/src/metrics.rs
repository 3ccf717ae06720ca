//! What `analyze` measures: rows and time of every operator, rows and bytes of every edge between stages.
//!
//! A node that measures stands above each operator. It changes no row and lets filters pass, so an
//! instrumented plan does what the plan does.

use crate::unary::{UnaryExec, UnaryOperator};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

/// What an operator handed out, summed over all channels.
#[derive(Debug, Default)]
pub(crate) struct OperatorMetrics {
    rows: AtomicU64,
    /// The time spent in it and in all operators below it.
    nanoseconds: AtomicU64,
}

impl OperatorMetrics {
    /// How many rows came out.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// The time spent in the operator and in all operators below it.
    pub fn nanoseconds(&self) -> u64 {
        self.nanoseconds.load(Ordering::Relaxed)
    }
}

/// What moved along an edge between stages; a row that is sent to several channels counts several times.
#[derive(Debug, Default)]
pub(crate) struct EdgeMetrics {
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl EdgeMetrics {
    /// Counts rows that are sent to one channel.
    pub fn add(&self, rows: &RecordBatch) {
        let bytes = |column: &datafusion::arrow::array::ArrayRef| {
            column.to_data().get_slice_memory_size().unwrap_or_default() as u64
        };
        self.rows.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(rows.columns().iter().map(bytes).sum(), Ordering::Relaxed);
    }

    /// How many rows were sent.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// How many bytes these took in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Puts an [`Instrumented`] node above every node of a plan. A recursive query is left as it is: it finds the
/// table that it reads its own rows from by the shape of its plan.
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(crate) fn instrument(plan: LogicalPlan) -> Result<LogicalPlan> {
    if plan.exists(|node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_))))? {
        return Ok(plan);
    }
    let mut number = 0;
    plan.transform_up(|input| {
        number += 1;
        let node = Instrumented { number, metrics: Arc::default(), input };
        Ok(Transformed::yes(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
    })
    .data()
}

/// Measures the node below it, in a logical plan.
#[derive(Debug, Clone)]
pub(crate) struct Instrumented {
    /// Different for each node of a plan, so that equal subplans are measured apart.
    number: usize,
    /// What its input handed out.
    pub metrics: Arc<OperatorMetrics>,
    /// The node that is measured.
    pub input: LogicalPlan,
}

impl PartialEq for Instrumented {
    fn eq(&self, other: &Instrumented) -> bool {
        (self.number, &self.input) == (other.number, &other.input)
    }
}

impl Eq for Instrumented {}

impl std::hash::Hash for Instrumented {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.number, &self.input).hash(state);
    }
}

impl PartialOrd for Instrumented {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (self == other).then_some(std::cmp::Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for Instrumented {
    fn name(&self) -> &str {
        "Instrumented"
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
        write!(f, "Instrumented {}", self.number)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(Instrumented { input, ..self.clone() }),
            _ => internal_err!("an instrumented node has one input"),
        }
    }
}

impl Instrumented {
    /// The same in a physical plan, over the physical plan of its input.
    pub fn physical(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(UnaryExec::new(Measure(Arc::clone(&self.metrics)), input))
    }
}

/// Counts the rows of its input and the time it takes.
#[derive(Debug, Clone)]
struct Measure(Arc<OperatorMetrics>);

impl UnaryOperator for Measure {
    const NAME: &'static str = "InstrumentedExec";

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = input.execute(partition, context)?;
        Ok(Box::pin(Measured { rows, metrics: Arc::clone(&self.0) }))
    }
}

/// The rows of an operator that is measured.
struct Measured {
    rows: SendableRecordBatchStream,
    metrics: Arc<OperatorMetrics>,
}

impl Stream for Measured {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let since = Instant::now();
        let polled = self.rows.poll_next_unpin(context);
        self.metrics.nanoseconds.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
        if let Poll::Ready(Some(Ok(rows))) = &polled {
            self.metrics.rows.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        }
        polled
    }
}

impl RecordBatchStream for Measured {
    fn schema(&self) -> datafusion::arrow::datatypes::SchemaRef {
        self.rows.schema()
    }
}
