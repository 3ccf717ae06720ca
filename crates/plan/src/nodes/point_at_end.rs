//! `PointAtEnd`: each row becomes a point at the end of its lifetime.

use super::{only_input, shape::Shape, subtree::Subtree};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;

/// Rows become points at the ends of their lifetimes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct PointAtEnd {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    shape: Shape,
}

impl PointAtEnd {
    /// Over any stream.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(input: LogicalPlan) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(PointAtEnd { input: input.into(), shape })
    }
}

impl UserDefinedLogicalNodeCore for PointAtEnd {
    fn name(&self) -> &str {
        "PointAtEnd"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.shape.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("PointAtEnd")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        PointAtEnd::try_new(only_input("PointAtEnd", inputs)?)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
