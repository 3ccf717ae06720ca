//! The compiler: a schema, the capabilities of a store, and the aliases that the query has used so far.

use super::error::CompileError;
use crate::error::{Error, Result};
use crate::schema::Schema;
use crate::store::Capabilities;
use crate::syntax::{Parameter, parameter_number};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, Volatility};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Compiles plans over one schema.
pub(crate) struct Compiler<'a> {
    /// The schema.
    pub schema: &'a Schema,
    /// What the store can do.
    pub capabilities: Capabilities,
    /// Queries without a bound are accepted.
    pub allow: bool,
    /// The parameters of the statement.
    pub parameters: &'a [Parameter],
    /// The aliases that the query uses.
    pub(super) aliases: RefCell<BTreeSet<String>>,
}

impl<'a> Compiler<'a> {
    /// A compiler over a schema and a store's capabilities; `allow` accepts queries without a bound.
    pub fn new(
        schema: &'a Schema,
        capabilities: Capabilities,
        allow: bool,
        parameters: &'a [Parameter],
    ) -> Compiler<'a> {
        Compiler { schema, capabilities, allow, parameters, aliases: RefCell::default() }
    }

    /// An alias that the query does not use yet.
    pub(super) fn alias(&self, wanted: &str) -> String {
        let mut aliases = self.aliases.borrow_mut();
        let mut names = (1..).map(|n| if n == 1 { wanted.to_string() } else { format!("{wanted}_{n}") });
        // The numbers never end, so a name is always found.
        names.find(|name| aliases.insert(name.clone())).unwrap_or_default()
    }

    /// Whether a list is given as one parameter.
    pub(super) fn is_list_parameter(&self, values: &[Expr]) -> bool {
        let [Expr::Placeholder(Placeholder { id, .. })] = values else { return false };
        parameter_number(id)
            .and_then(|at| self.parameters.get(at))
            .is_some_and(|parameter| parameter.list.is_some())
    }

    /// How many values a list can have.
    pub(super) fn list_length(&self, values: &[Expr]) -> u64 {
        match values {
            [Expr::Placeholder(Placeholder { id, .. })] => {
                let parameter = parameter_number(id).and_then(|at| self.parameters.get(at));
                parameter.and_then(|parameter| parameter.list).unwrap_or(1)
            }
            values => values.len() as u64,
        }
    }

    /// The position of the parameter of `limit ? at most n`, and `n`.
    pub(super) fn row_count_parameter(&self) -> Option<(usize, u64)> {
        self.parameters.iter().enumerate().find_map(|(at, parameter)| Some((at, parameter.most_rows?)))
    }
}

/// The expression cast to a type.
pub(super) fn cast(expr: Expr, of: &DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), of.clone()))
}

/// Whether a plan consists of joins, filters and projections.
pub(super) fn is_joins(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_joins(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_joins(&alias.input),
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::TableScan(_) => true,
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// The error for an operator that no plan has.
pub(super) fn unsupported(what: &str) -> CompileError {
    Error::invalid(format!("{what} is not supported in a bounded query")).into()
}

/// Refuses subqueries, and functions that are not deterministic.
pub(crate) fn check(expr: &Expr) -> Result<()> {
    let mut wrong = None;
    expr.apply(|expr| {
        wrong = match expr {
            Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_) => {
                Some("a subquery is not supported here: write it as a join, or ask twice".to_string())
            }
            Expr::ScalarFunction(call) if call.func.signature().volatility != Volatility::Immutable => {
                Some(format!("{}() is another value in every call: give it as a parameter", call.func.name()))
            }
            _ => None,
        };
        Ok(if wrong.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    wrong.map_or(Ok(()), |message| Err(Error::invalid(message)))
}
