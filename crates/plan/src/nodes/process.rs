//! `Process`: an operator of a user's own over the batches of a stream.
//!
//! A row that it makes has the lifetime and the key of the row that it is made of.

use super::{check_count, key_places, listed, only_input, shape::Shape, subtree::Subtree};
use arrow::datatypes::FieldRef;
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use whimbrel_temporal::operators::UserOperator;

/// A user's operator. Two are equal if they are the same object.
#[derive(Debug, Clone)]
pub struct OperatorObject(pub Arc<dyn UserOperator>);

impl OperatorObject {
    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }
}

impl PartialEq for OperatorObject {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for OperatorObject {}

impl Hash for OperatorObject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl PartialOrd for OperatorObject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

/// A user's operator runs over the rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Process {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// The columns that stay.
    pub key: Subtree<Vec<Expr>>,
    /// The operator.
    pub operator: OperatorObject,
    shape: Shape,
}

impl Process {
    /// Over a stream, of which the columns of the key stay.
    ///
    /// # Errors
    /// `Plan` if a key is no column, or two columns of the result have one name.
    pub fn try_new(input: LogicalPlan, key: Vec<Expr>, operator: OperatorObject) -> Result<Self> {
        let places = key_places(&input, &key)?;
        let kept = places.iter().map(|place| Arc::clone(&input.schema().fields()[*place]));
        let fields: Vec<FieldRef> = kept.chain(operator.0.schema().fields().iter().cloned()).collect();
        let shape = Shape::unqualified(fields, &input)?;
        Ok(Process { input: input.into(), key: key.into(), operator, shape })
    }

    /// The places of the columns that stay.
    ///
    /// # Errors
    /// `Plan` if one is no column of the input.
    pub fn key_places(&self) -> Result<Vec<usize>> {
        key_places(&self.input, &self.key)
    }
}

impl UserDefinedLogicalNodeCore for Process {
    fn name(&self) -> &str {
        "Process"
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
        // The operator sees all rows: what it makes of one may depend on those of other keys.
        self.shape.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Process: {} by [{}]", self.operator.0.name(), listed(&self.key))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        check_count("Process", &exprs, self.key.len())?;
        Process::try_new(only_input("Process", inputs)?, exprs, self.operator.clone())
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}
