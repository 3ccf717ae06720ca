//! `ClipConstant`: no row lives longer than so many ticks.

use super::{only_input, shape::Shape, subtree::Subtree};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;

/// Lifetimes are cut to a length.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct ClipConstant {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// The longest lifetime, in ticks; positive.
    pub limit: i64,
    shape: Shape,
}

impl ClipConstant {
    /// The limit is taken as it is: the builder has checked it.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(input: LogicalPlan, limit: i64) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(ClipConstant { input: input.into(), limit, shape })
    }
}

impl UserDefinedLogicalNodeCore for ClipConstant {
    fn name(&self) -> &str {
        "ClipConstant"
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
        write!(f, "ClipConstant: limit={}", self.limit)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        ClipConstant::try_new(only_input("ClipConstant", inputs)?, self.limit)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
