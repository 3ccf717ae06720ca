//! Inputs of operators that are made while a query runs.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows that are there already, or come; they are read once.
pub(super) struct GivenExec {
    rows: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl GivenExec {
    pub fn stream(rows: SendableRecordBatchStream) -> GivenExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(rows.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        GivenExec { rows: Mutex::new(Some(rows)), properties: Arc::new(properties) }
    }

    pub fn batches(schema: SchemaRef, rows: Vec<RecordBatch>) -> GivenExec {
        let rows = stream::iter(rows.into_iter().map(Ok));
        GivenExec::stream(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// Rows of an input, with the properties of that: above all, their order.
    pub fn part_of(input: &Arc<dyn ExecutionPlan>, rows: Vec<RecordBatch>) -> GivenExec {
        GivenExec { properties: Arc::clone(input.properties()), ..GivenExec::batches(input.schema(), rows) }
    }
}

impl fmt::Debug for GivenExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenExec").finish_non_exhaustive()
    }
}

impl DisplayAs for GivenExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "GivenExec")
    }
}

impl ExecutionPlan for GivenExec {
    fn name(&self) -> &'static str {
        "GivenExec"
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
        rows.ok_or_else(|| internal_datafusion_err!("what was given to an operator is read once"))
    }
}

/// An input that runs in a context of its own, whatever that is of the operator above it.
#[derive(Debug)]
pub(super) struct WithinExec {
    pub input: Arc<dyn ExecutionPlan>,
    pub context: Arc<TaskContext>,
}

impl DisplayAs for WithinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WithinExec")
    }
}

impl ExecutionPlan for WithinExec {
    fn name(&self) -> &'static str {
        "WithinExec"
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
            (Some(input), true) => Ok(Arc::new(WithinExec { input, context: self.context.clone() })),
            _ => internal_err!("an input is one"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, Arc::clone(&self.context))
    }
}

/// Rows, and memory that is taken until there are no more of them.
pub(super) fn holding(
    rows: SendableRecordBatchStream,
    memory: MemoryReservation,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = rows.map(move |rows| {
        let _held = &memory;
        rows
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}
