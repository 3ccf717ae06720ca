//! `WithStart`: the start of a row's lifetime becomes its last column, so that expressions can speak of time.

use super::{only_input, shape::Shape, subtree::Subtree};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The start of the lifetime becomes a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct WithStart {
    /// The stream.
    pub input: Subtree<LogicalPlan>,
    /// The new column's name.
    pub name: String,
    shape: Shape,
}

impl WithStart {
    /// `time` is the stream's time type, which the new column has.
    ///
    /// # Errors
    /// `Plan` if there is a column of this name already.
    pub fn try_new(input: LogicalPlan, name: String, time: DataType) -> Result<Self> {
        let mut fields = input.schema().fields().to_vec();
        fields.push(Arc::new(Field::new(&name, time, false)));
        let shape = Shape::unqualified(fields, &input)?;
        Ok(WithStart { input: input.into(), name, shape })
    }

    /// The type of the new column.
    pub(crate) fn time_type(&self) -> DataType {
        let fields = self.shape.schema().fields();
        // The constructor put the time column last.
        fields[fields.len() - 1].data_type().clone()
    }
}

impl UserDefinedLogicalNodeCore for WithStart {
    fn name(&self) -> &str {
        "WithStart"
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
        HashSet::from([self.name.clone()])
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WithStart: {}", self.name)
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        WithStart::try_new(only_input("WithStart", inputs)?, self.name.clone(), self.time_type())
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let new = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|i| *i != new).collect()])
    }
}
