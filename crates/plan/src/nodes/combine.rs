//! `Combine`: the first step of an aggregate, before its rows move to where their groups are (quill.txt Fig.
//! 1 c).
//!
//! What comes out, aggregated once more, gives what the rows that came in would have given; a group may come
//! out as one row or as several, so this is no aggregate that a query could ask for: planners put it there.
//! Its expressions are those of an `Aggregate`; its columns are named and typed as that one's would be.

use super::{check_count, listed, only_input, shape::Shape, subtree::Subtree};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Rows of one group and instant are put together where that makes them fewer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Combine {
    /// The stream; all of its rows that are alive together started together.
    pub input: Subtree<LogicalPlan>,
    /// Columns.
    pub group: Subtree<Vec<Expr>>,
    /// Aggregates that can be put together from parts.
    pub calls: Subtree<Vec<Expr>>,
    shape: Shape,
}

impl Combine {
    /// The expressions are taken as they are: the planner has checked them.
    ///
    /// # Errors
    /// `Plan` if the groups and calls make no aggregate of the input.
    pub fn try_new(input: LogicalPlan, group: Vec<Expr>, calls: Vec<Expr>) -> Result<Self> {
        let aggregate = Aggregate::try_new(Arc::new(input.clone()), group.clone(), calls.clone())?;
        let shape = Shape::of_input(&LogicalPlan::Aggregate(aggregate))?;
        Ok(Combine { input: input.into(), group: group.into(), calls: calls.into(), shape })
    }

    /// The columns of the input.
    pub fn input_schema(&self) -> &DFSchema {
        self.input.schema()
    }
}

impl UserDefinedLogicalNodeCore for Combine {
    fn name(&self) -> &str {
        "Combine"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.shape.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.group.iter().chain(self.calls.iter()).cloned().collect()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema().fields().iter().map(|f| f.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Combine: by [{}]: {}", listed(&self.group), listed(&self.calls))
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("Combine", &exprs, self.group.len() + self.calls.len())?;
        let calls = exprs.split_off(self.group.len());
        Combine::try_new(only_input("Combine", inputs)?, exprs, calls)
    }
}
