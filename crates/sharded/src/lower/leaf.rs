//! The leaves of a relational stage's plan: its inputs.

use datafusion::common::{DFSchemaRef, Result, Statistics};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::fmt;
use std::sync::Arc;

/// An input of a relational stage, in its logical plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Leaf {
    /// The number of the input.
    pub input: usize,
    /// Whether the plan reads it more than once, as the recursive part of a query does.
    pub again: bool,
    /// Its columns.
    pub schema: DFSchemaRef,
}

impl PartialOrd for Leaf {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for Leaf {
    fn name(&self) -> &str {
        "Leaf"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Leaf: input {}", self.input)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, _inputs: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}

/// What is known of an input when its stage is planned.
#[derive(Debug, Clone)]
pub(crate) struct LeafInfo {
    /// Whether its lanes are read one after the other, instead of in turn.
    pub is_in_order: bool,
    /// Whether its source filters rows by a predicate.
    pub filters: bool,
    /// The estimated statistics of its rows.
    pub statistics: Arc<Statistics>,
}
