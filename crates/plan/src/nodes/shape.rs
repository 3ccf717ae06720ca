//! The output schema inside a node. It follows from the node's other fields, so it takes part in equality and
//! hashing but decides no ordering: nodes can derive `PartialOrd`.

use arrow::datatypes::FieldRef;
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::LogicalPlan;
use std::cmp::Ordering;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Shape(DFSchemaRef);

impl PartialOrd for Shape {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Shape {
    /// The input's columns, qualifiers and all.
    pub fn of_input(input: &LogicalPlan) -> Result<Shape> {
        let schema = input.schema();
        if schema.functional_dependencies().is_empty() {
            return Ok(Shape(Arc::clone(schema)));
        }
        let fields = schema.iter().map(|(q, f)| (q.cloned(), Arc::clone(f))).collect();
        Ok(Shape(Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?)))
    }

    /// These columns, unqualified, with the input's metadata.
    pub fn unqualified(fields: Vec<FieldRef>, input: &LogicalPlan) -> Result<Shape> {
        let fields = fields.into_iter().map(|f| (None, f)).collect();
        Ok(Shape(Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?)))
    }

    pub fn schema(&self) -> &DFSchemaRef {
        &self.0
    }
}
