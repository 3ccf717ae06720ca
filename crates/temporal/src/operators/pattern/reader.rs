//! Expressions over the few columns that they read: only these are gathered for them.

use super::automaton::Expr;
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use std::sync::Arc;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub expr: Expr,
    /// Which columns it reads: of the event, then of the register.
    pub columns: Vec<usize>,
    schema: SchemaRef,
}

// Not derived: the comparison would move the expression.
impl PartialEq for Reader {
    fn eq(&self, other: &Reader) -> bool {
        self.expr.eq(&other.expr) && self.columns == other.columns && self.schema == other.schema
    }
}

impl Reader {
    /// Of an expression over columns of this schema.
    ///
    /// # Errors
    /// `Plan` if it reads a column that does not exist.
    pub fn new(expr: &Expr, schema: &Schema) -> Result<Reader> {
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let all = schema.fields().len();
        if let Some(column) = columns.iter().find(|&&column| column >= all) {
            return plan_err!("{expr} reads column {column} of {all}");
        }
        let moved = |expr: Expr| match expr.downcast_ref::<Column>() {
            Some(column) => {
                let place = columns.partition_point(|&other| other < column.index());
                Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Expr))
            }
            None => Ok(Transformed::no(expr)),
        };
        let moved = expr.clone().transform_up(moved)?.data;
        let schema = Arc::new(schema.project(&columns)?);
        Ok(Reader { expr: moved, columns, schema })
    }

    /// The values over so many rows of its columns.
    pub fn evaluate(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<ArrayRef> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        self.expr.evaluate(&batch)?.into_array(rows)
    }

    /// The same, of a condition.
    pub fn truth(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        match self.evaluate(columns, rows)?.as_boolean_opt() {
            Some(truth) => Ok(truth.clone()),
            None => exec_err!("the condition {} is not a truth value", self.expr),
        }
    }
}
