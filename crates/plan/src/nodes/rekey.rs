//! `ReKey`: the current key changes; no row moves. A key is columns only: the builder projects computed keys
//! first.
//!
//! The node changes no row. It says where the key, and with it the hash, is computed once for everything
//! above.

use super::{check_count, listed, only_input, shape::Shape, subtree::Subtree};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;

/// The current key changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct ReKey {
    /// The stream or relation.
    pub input: Subtree<LogicalPlan>,
    /// Columns; empty: no key.
    pub key: Subtree<Vec<Expr>>,
    shape: Shape,
}

impl ReKey {
    /// The key is taken as it is: the builder has checked it.
    ///
    /// # Errors
    /// `Plan` if the input has two columns of one name.
    pub fn try_new(input: LogicalPlan, key: Vec<Expr>) -> Result<Self> {
        let shape = Shape::of_input(&input)?;
        Ok(ReKey { input: input.into(), key: key.into(), shape })
    }
}

impl UserDefinedLogicalNodeCore for ReKey {
    fn name(&self) -> &str {
        "ReKey"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.shape.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.key.to_vec()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ReKey: [{}]", listed(&self.key))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("ReKey", &exprs, self.key.len())?;
        ReKey::try_new(only_input("ReKey", inputs)?, exprs)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
