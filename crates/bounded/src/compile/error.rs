//! Why a query has no plan: it is wrong, or one of its relations has no bound.

use crate::error::Error;
use crate::plan::{occurrence, unparse};
use crate::schema::Table;
use crate::syntax;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use std::sync::Arc;

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum CompileError {
    /// The statement is wrong, or does not fit the schema.
    Other(Error),
    /// There is no bound.
    Unbounded(Box<UnboundedRelation>),
}

impl From<Error> for CompileError {
    fn from(error: Error) -> CompileError {
        CompileError::Other(error)
    }
}

impl From<DataFusionError> for CompileError {
    fn from(error: DataFusionError) -> CompileError {
        CompileError::Other(error.into())
    }
}

/// A relation whose rows nothing limits.
#[derive(Debug, Clone)]
pub(crate) struct UnboundedRelation {
    /// The relation, as the query calls it.
    pub alias: String,
    /// Its table.
    pub table: Arc<Table>,
    /// The relations that were joined before it.
    pub joined: Vec<String>,
    /// Its columns that equal a constant or a joined column.
    pub equal: Vec<usize>,
    /// Other relations that could be next in the join order, with their columns that equal a constant or a
    /// joined column.
    pub also: Vec<(Arc<Table>, Vec<usize>)>,
    /// Predicates on it that no key implies.
    pub residual: Vec<Expr>,
    /// The query's stop, which could not be used here.
    pub stop: Option<u64>,
    /// Whether the query's order could come from an index of this table.
    pub orderable: bool,
    /// A reference that a join follows, and that can be null.
    pub nullable: Option<Reference>,
}

/// A column that refers to another table.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    /// The relation, as the query calls it.
    pub alias: String,
    /// The table that the column is of.
    pub table: Arc<Table>,
    /// The column.
    pub column: usize,
}

impl Reference {
    /// The column as SQL.
    pub fn sql(&self) -> String {
        format!(
            "{}.{}",
            syntax::quote_name(&self.alias),
            syntax::quote_name(&self.table.columns[self.column].name)
        )
    }
}

impl UnboundedRelation {
    /// The reason in one sentence.
    pub(crate) fn reason(&self) -> String {
        let what = match occurrence(&self.alias, &self.table.name) {
            Some(_) => self.table.name.clone(),
            None => format!("{} {}", self.table.name, self.alias),
        };
        let columns = self.table.column_names(&self.equal);
        let mut reason = match (self.joined.last(), self.equal.is_empty()) {
            (None, true) => {
                format!("nothing says which rows of {what} are meant, so all of them would be read")
            }
            (None, false) => format!("nothing limits how many rows of {what} have the same {columns}"),
            (Some(from), true) => format!("for each row of {from} all rows of {what} would be read"),
            (Some(from), false) => {
                format!(
                    "for each row of {from} nothing limits how many rows of {what} have the same {columns}"
                )
            }
        };
        if let (Some(stop), Some(predicate)) = (self.stop, self.residual.first()) {
            reason += &format!(
                "; its first {stop} rows are not enough, for `{}` drops rows after they were read",
                unparse(predicate)
            );
        } else if let (Some(stop), false) = (self.stop, self.orderable) {
            reason += &format!(
                "; its first {stop} rows are not enough, for the order of the result is not that of {what}"
            );
        } else if let (Some(stop), Some(reference)) = (self.stop, &self.nullable) {
            reason += &format!(
                "; its first {stop} rows are not enough, for {} can be null, and then the join drops the row",
                reference.sql()
            );
        } else if let Some(stop) = self.stop {
            reason += &format!(
                "; its first {stop} rows are not enough, for a later join or predicate can drop some"
            );
        }
        reason
    }
}
