//! Physical operators that run in place of one of DataFusion's: what is the same as for that, written once.
//!
//! A [`Substitute`] holds the original operator and says how its rows are computed; [`SubstituteExec`] makes
//! a node of a physical plan of it. Schema, inputs, expressions and properties are those of the original.

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use std::fmt;
use std::sync::Arc;

/// How the rows of an operator are computed in place of DataFusion.
pub(crate) trait Substitute: fmt::Debug + Send + Sync + Sized + 'static {
    /// The name in a printed plan.
    const NAME: &'static str;

    /// The operator that is replaced.
    type Original: ExecutionPlan;

    /// The operator that is replaced.
    fn original(&self) -> &Self::Original;

    /// The substitute over other inputs.
    fn with_children(
        &self,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Self>;

    /// The substitute without what an earlier execution has left: a recursive query runs it several times.
    fn reset(&self) -> Result<Self> {
        let children = self.original().children().into_iter().cloned().collect();
        self.with_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
    }

    /// The rows of one partition.
    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream>;
}

/// A [`Substitute`], as a node of a physical plan.
#[derive(Debug)]
pub(crate) struct SubstituteExec<S>(pub S);

impl<S: Substitute> DisplayAs for SubstituteExec<S> {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: ", S::NAME)?;
        self.0.original().fmt_as(kind, f)
    }
}

impl<S: Substitute> ExecutionPlan for SubstituteExec<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.original().properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.0.original().children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.0.original().maintains_input_order()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.original().apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(SubstituteExec(self.0.with_children(children, options)?)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(SubstituteExec(self.0.reset()?)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}
