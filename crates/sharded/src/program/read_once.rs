//! Inputs of operators that are planned while a query runs.

use crate::unary::UnaryOperator;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A leaf over a stream of rows, which is read once.
pub(super) struct ReadOnceExec {
    rows: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl ReadOnceExec {
    /// A leaf over this stream.
    pub fn stream(rows: SendableRecordBatchStream) -> ReadOnceExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(rows.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        ReadOnceExec { rows: Mutex::new(Some(rows)), properties: Arc::new(properties) }
    }

    /// A leaf over these batches.
    pub fn batches(schema: SchemaRef, rows: Vec<RecordBatch>) -> ReadOnceExec {
        let rows = stream::iter(rows.into_iter().map(Ok));
        ReadOnceExec::stream(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// A leaf over some rows of an input, with the properties of the input: above all, their order.
    pub fn part_of(input: &Arc<dyn ExecutionPlan>, rows: Vec<RecordBatch>) -> ReadOnceExec {
        ReadOnceExec {
            properties: Arc::clone(input.properties()),
            ..ReadOnceExec::batches(input.schema(), rows)
        }
    }
}

impl fmt::Debug for ReadOnceExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOnceExec").finish_non_exhaustive()
    }
}

impl DisplayAs for ReadOnceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ReadOnceExec")
    }
}

impl ExecutionPlan for ReadOnceExec {
    fn name(&self) -> &'static str {
        "ReadOnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        rows.ok_or_else(|| internal_datafusion_err!("the input of an operator was read twice"))
    }
}

/// Runs its input in a context of its own, whatever the context of the operator above.
#[derive(Debug, Clone)]
pub(super) struct InContext(pub Arc<TaskContext>);

impl UnaryOperator for InContext {
    const NAME: &'static str = "InContextExec";

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        _: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        input.execute(partition, Arc::clone(&self.0))
    }
}

/// The rows, which hold on to a memory reservation until they are dropped.
pub(super) fn with_reservation(
    rows: SendableRecordBatchStream,
    memory: MemoryReservation,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = rows.map(move |rows| {
        let _reserved = &memory;
        rows
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}
