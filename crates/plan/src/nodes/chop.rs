//! `Chop`: lifetimes are cut at beats. The relation is the same; its rows start anew at every beat.

use super::{only_input, shape::Shape};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;

/// Lifetimes are cut at the beats `offset + k·period`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Chop {
    /// The stream.
    pub input: LogicalPlan,
    /// Ticks between two beats; positive.
    pub period: i64,
    /// Where the beats lie; not negative, and less than the period.
    pub offset: i64,
    shape: Shape,
}

impl Chop {
    /// The beats are taken as they are: the builder has checked them.
    pub fn try_new(input: LogicalPlan, period: i64, offset: i64) -> Result<Self> {
        let shape = Shape::like(&input)?;
        Ok(Chop { input, period, offset, shape })
    }
}

impl UserDefinedLogicalNodeCore for Chop {
    fn name(&self) -> &str {
        "Chop"
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
        write!(f, "Chop: period={}, offset={}", self.period, self.offset)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        Chop::try_new(only_input("Chop", inputs)?, self.period, self.offset)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
