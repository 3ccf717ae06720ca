//! `Accumulate`: the relation of the rows of a stream that have come so far, by the time of the stream.
//!
//! Each row stays from the start of its lifetime on. What is computed above is kept up to date as the time of
//! the stream passes, and is the answer over all rows when the stream has ended. With a time that says how
//! much of a table has been read, that is a progressive query (trill.txt §7.4).

use super::{only_input, shape::Shape, subtree::Subtree};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::fmt;

/// Rows of a stream stay, and make up a relation that grows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Accumulate {
    /// A stream with time.
    pub input: Subtree<LogicalPlan>,
    shape: Shape,
}

impl Accumulate {
    /// Over a stream.
    ///
    /// # Errors
    /// `Plan` if the columns of the stream make no schema.
    pub fn try_new(input: LogicalPlan) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(Accumulate { input: input.into(), shape })
    }
}

impl UserDefinedLogicalNodeCore for Accumulate {
    fn name(&self) -> &str {
        "Accumulate"
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

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Accumulate")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        Accumulate::try_new(only_input("Accumulate", inputs)?)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
