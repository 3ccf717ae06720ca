//! `Changes`: a relation that changes, as the stream of its changes.
//!
//! A row comes out for every row that comes into the relation or leaves it, with a first column `change`: 1
//! or -1. The sum of `change` over equal rows is how often the row is in the relation. What comes out stays:
//! over a live source it can be handed out row by row, where the relation itself has no row that is final
//! before the source ends.
//!
//! What goes because it is forgotten ([`AllowedLateness`](super::AllowedLateness)) is no change: it is final.

use super::{Node, node, only_input, shape::Shape, subtree::Subtree};
use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchemaRef, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The column that says what happens to a row: 1, it comes; -1, it goes.
pub const CHANGE: &str = "change";

/// What comes and goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Changes {
    /// The relation.
    pub input: Subtree<LogicalPlan>,
    /// Whether rows of the relation are forgotten.
    pub forgets: bool,
    shape: Shape,
}

impl Changes {
    /// Over any relation without a column `change`.
    ///
    /// # Errors
    /// `Plan` if there is a column `change` already.
    pub fn try_new(input: LogicalPlan) -> Result<Self> {
        if input.schema().index_of_column_by_name(None, CHANGE).is_some() {
            return plan_err!("changes: there is a column {CHANGE:?} already; give it another name first");
        }
        let change = Arc::new(Field::new(CHANGE, DataType::Int64, false));
        let fields = [change].into_iter().chain(input.schema().fields().iter().cloned()).collect();
        let shape = Shape::unqualified(fields, &input)?;
        let forgets = input.exists(|step| Ok(matches!(node(step), Some(Node::AllowedLateness(_)))))?;
        Ok(Changes { input: input.into(), forgets, shape })
    }
}

impl UserDefinedLogicalNodeCore for Changes {
    fn name(&self) -> &str {
        "Changes"
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
        self.schema().fields().iter().map(|f| f.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Changes")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        // A plan that is cut into stages has what is forgotten in another stage.
        Ok(Changes { forgets: self.forgets, ..Changes::try_new(only_input("Changes", inputs)?)? })
    }
}
