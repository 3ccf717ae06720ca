//! Clauses that the parser accepts and nothing behind it reads are refused here, with their place.
//!
//! Invariant: every struct of the parser's tree that queries and changes consist of is destructured without
//! `..`, so that a clause that a later parser adds does not compile until it is refused here or read
//! elsewhere. What is not refused is read by statements, by `desugar`, or by DataFusion's planner, which
//! refuses expressions that it does not know.
//!
//! [`check_clauses`] reads the tree as it was parsed; [`check_calls`] reads the desugared one, in which
//! functions have the names that they have here.

mod call;
mod change;
mod ordering;
mod query;
mod relation;

pub(super) use call::check_calls;

use crate::syntax::walk::walk;
use datafusion::common::{DataFusionError, Diagnostic, Result, Span};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, Spanned, Statement as Sql, TableFactor, Visitor};
use std::ops::ControlFlow;

/// Breaks off with the error of a refused clause.
type Checked = ControlFlow<Box<DataFusionError>>;

/// Refuses clauses that nothing reads.
///
/// # Errors
/// `Plan`, with the place in the text where it is known.
pub(super) fn check_clauses(statement: &Statement) -> Result<()> {
    result(visited(statement, &mut Clauses))
}

/// Walks over a statement.
fn visited<V: Visitor<Break = Box<DataFusionError>>>(statement: &Statement, visitor: &mut V) -> Checked {
    match statement {
        Statement::Statement(statement) => walk(statement.as_ref(), visitor),
        Statement::Explain(explain) => visited(&explain.statement, visitor),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => walk(query.as_ref(), visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// The result of a visitor that breaks off with an error.
fn result(checked: Checked) -> Result<()> {
    match checked {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Checks the clauses of every node.
struct Clauses;

impl Visitor for Clauses {
    type Break = Box<DataFusionError>;

    fn pre_visit_statement(&mut self, statement: &Sql) -> Checked {
        change::check_statement(statement)
    }

    fn pre_visit_query(&mut self, query: &Query) -> Checked {
        query::check(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Checked {
        query::check_select(select)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Checked {
        relation::check(factor)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Checked {
        call::check_expression(expr)
    }
}

/// An optional clause.
trait Part {
    /// Whether it is there.
    fn is_there(&self) -> bool;
}

impl<T> Part for Option<T> {
    fn is_there(&self) -> bool {
        self.is_some()
    }
}

impl<T> Part for Vec<T> {
    fn is_there(&self) -> bool {
        !self.is_empty()
    }
}

impl Part for bool {
    fn is_there(&self) -> bool {
        *self
    }
}

/// Refuses a clause, if it is there; `around` is its parent. A place costs a walk, so only an error looks it
/// up.
fn absent(part: &impl Part, why: &str, around: &dyn Spanned) -> Checked {
    match part.is_there() {
        true => refuse(why, around),
        false => ControlFlow::Continue(()),
    }
}

/// Refuses a clause that has a place of its own, if it is there.
fn none<T: Spanned>(part: &Option<T>, why: &str) -> Checked {
    match part {
        Some(part) => refuse(why, part),
        None => ControlFlow::Continue(()),
    }
}

/// Breaks off with an error at a place.
fn refuse(why: &str, at: &dyn Spanned) -> Checked {
    let span = Span::try_from_sqlparser_span(at.span());
    let error =
        DataFusionError::NotImplemented(why.to_string()).with_diagnostic(Diagnostic::new_error(why, span));
    ControlFlow::Break(Box::new(error))
}
