//! The parts of a view: relations, aggregates, and the content of each column.

use crate::datum::Type;
use crate::error::{Error, Result};
use crate::schema::Table;
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::AggregateFunction;
use std::sync::Arc;

/// A table of a view.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    /// What the view calls it.
    pub alias: String,
    /// The table.
    pub table: Arc<Table>,
    /// The columns that the view depends on, but for the primary key.
    pub used: Vec<usize>,
    /// Other relations refer to its rows, so a row without such references is in no row of the view.
    pub parent: bool,
}

/// An aggregate of a view.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    /// What is computed.
    pub function: Function,
    /// The argument, over the input.
    pub argument: Option<Expr>,
    /// The type of the argument.
    pub of: Type,
}

/// Aggregate functions that can be maintained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// `count(*)`
    Rows,
    /// `count(x)`
    Count,
    /// `sum(x)`
    Sum,
    /// `avg(x)`
    Average,
    /// `min(x)`
    Min,
    /// `max(x)`
    Max,
}

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A group.
    Group(usize),
    /// The number of input rows in the group.
    Rows,
    /// The result of an aggregate.
    Value(usize),
    /// The number of values that are not null.
    Count(usize),
    /// The sum behind an average.
    Sum(usize),
}

impl Function {
    /// The function of a call; `distinct`, `filter` and `order by` in it are refused.
    pub(super) fn of(call: &AggregateFunction) -> Result<Function> {
        let params = &call.params;
        if params.distinct || params.filter.is_some() || !params.order_by.is_empty() {
            return Err(Error::invalid(
                "distinct, filter and order by within an aggregate cannot be kept in a view: \
                 write a view with the condition in its where, or one grouped by the value too",
            ));
        }
        match (call.func.name(), params.args.as_slice()) {
            ("count", [Expr::Literal(value, _)]) if !value.is_null() => Ok(Function::Rows),
            ("count", [_]) => Ok(Function::Count),
            ("sum", [_]) => Ok(Function::Sum),
            ("avg", [_]) => Ok(Function::Average),
            ("min", [_]) => Ok(Function::Min),
            ("max", [_]) => Ok(Function::Max),
            (other, _) => Err(Error::invalid(format!(
                "{other} cannot be kept in a view; count, sum, avg, min and max can"
            ))),
        }
    }

    /// Whether removing a value may need a search for the next one.
    pub fn is_extreme(self) -> bool {
        matches!(self, Function::Min | Function::Max)
    }
}

/// A column that the query of a view returns, and its name.
pub(super) type Output = (Slot, String);

/// The type of a column that holds values of an expression.
pub(super) fn stored_type(of: &DataType, expr: &Expr) -> Result<Type> {
    Type::holding(of).ok_or_else(|| {
        Error::invalid(format!("{expr} is {of}, and no column has that type: cast it to another"))
    })
}
