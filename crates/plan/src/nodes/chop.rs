//! `Chop`: lifetimes are cut at beats. The relation is the same; its rows start anew at every beat.

use super::{only_input, shape::Shape, subtree::Subtree};
use crate::calendar::Grid;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;

/// Lifetimes are cut where windows begin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Chop {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// Where they are cut.
    pub beats: Grid,
    shape: Shape,
}

impl Chop {
    /// The beats are taken as they are: the builder has checked them.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(input: LogicalPlan, beats: Grid) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(Chop { input: input.into(), beats, shape })
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
        match &self.beats {
            Grid::Ticks { hop, offset } => write!(f, "Chop: period={hop}, offset={offset}"),
            Grid::Calendar(calendar) => write!(f, "Chop: every {calendar}"),
        }
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        Chop::try_new(only_input("Chop", inputs)?, self.beats.clone())
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
