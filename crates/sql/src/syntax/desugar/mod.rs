//! Syntax that the parser or DataFusion's planner does not have, or misunderstands, as syntax that the
//! planner knows.
//!
//! Invariant: a tree without such syntax stays as it is. One module is about one thing; [`Desugar`] is their
//! order.

mod aggregate_functions;
mod alias_reuse;
mod date_functions;
mod expressions;
mod fetch;
mod function_aliases;
mod grouping_sets;
mod interval_literals;
mod join_using;
mod json;
mod lambdas;
mod like_patterns;
mod list_reductions;
mod map_functions;
mod named_windows;
mod operators;
mod order_by_all;
mod outer_struct_fields;
mod pivot;
mod power;
mod quantified_comparisons;
mod recursive_with;
mod select;
mod set_operations;
mod substitute;
mod table_functions;
mod type_names;
mod unnamed_subqueries;
mod unpivot;

pub(super) use alias_reuse::inline_aliases;
pub use fetch::fetch_as_limit;
pub(crate) use join_using::{is_natural, merge_using_columns, natural_constraint};
pub use like_patterns::like_pattern;
pub(super) use outer_struct_fields::outer_struct_fields;
pub(crate) use pivot::PIVOTED;
pub(crate) use set_operations::{MULTISET, ORDERED};

use crate::syntax::ast::nested;
use crate::syntax::parser;
use crate::syntax::walk::walk_mut;
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SelectItem, SetExpr, Statement, TableFactor, UnaryOperator,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Desugars a statement.
///
/// # Errors
/// `Plan` if it says what DataFusion's planner has no form for, and would not notice.
pub(super) fn statement(statement: &mut Statement) -> Result<()> {
    result(walk_mut(statement, &mut Desugar))
}

/// Desugars a query that stands in no statement of the parser's.
///
/// # Errors
/// As [`statement`].
pub(super) fn query(query: &mut Query) -> Result<()> {
    result(walk_mut(query, &mut Desugar))
}

/// Parses an expression that was written here of others that were parsed before.
fn parse_expr(text: &str) -> Option<Expr> {
    let mut parsed = parser::query(&format!("select {text}")).ok()?;
    query(&mut parsed).ok()?;
    let SetExpr::Select(select) = *parsed.body else { return None };
    match select.projection.into_iter().next()? {
        SelectItem::UnnamedExpr(expr) => Some(expr),
        _ => None,
    }
}

/// The result of a visitor that breaks off with a message.
fn result(visited: ControlFlow<String>) -> Result<()> {
    match visited {
        ControlFlow::Break(message) => plan_err!("{message}"),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The order of the rewrites: queries and relations from the outside in, expressions from the inside out.
struct Desugar;

impl VisitorMut for Desugar {
    /// Why a clause cannot be desugared.
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        fetch_as_limit(query)?;
        recursive_with::desugar(query);
        select::all_columns(&mut query.body);
        order_by_all::desugar(query);
        select::desugar(&mut query.body);
        unnamed_subqueries::desugar(query);
        merge_using_columns(query);
        named_windows::desugar(query)?;
        set_operations::mark_multisets(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<String> {
        table_functions::unnest(factor);
        table_functions::named_options(factor);
        pivot::mark_pivot(factor)?;
        unpivot::desugar(factor)
    }

    /// Lambdas come before JSON: an arrow that is neither an argument nor a lambda is JSON's.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if let Expr::Function(call) = expr {
            lambdas::desugar(call);
        }
        json::rebind_arrows(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if let Expr::BinaryOp { op: BinaryOperator::BitwiseXor, .. } = expr {
            power::desugar(expr);
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::UnaryOp { op: UnaryOperator::Not, .. }
            | Expr::BinaryOp { .. } => {
                operators::begins_with(expr);
                operators::rebind_operands(expr);
                json::arrow(expr);
            }
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => {
                let operand = std::mem::replace(inner.as_mut(), Expr::Identifier(Ident::new("")));
                *expr = operators::bitwise_not(operand);
            }
            // A plus sign does nothing, to a value of any type.
            Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => {
                *expr = nested(std::mem::replace(inner.as_mut(), Expr::Identifier(Ident::new(""))));
            }
            Expr::Like { .. } | Expr::ILike { .. } | Expr::SimilarTo { .. } => like_pattern(expr)?,
            Expr::AnyOp { .. } | Expr::AllOp { .. } => quantified_comparisons::desugar(expr),
            Expr::Cast { .. } => {
                json::cast(expr);
                if let Expr::Cast { data_type, .. } = expr {
                    type_names::desugar(data_type);
                    expressions::desugar(expr);
                }
            }
            Expr::Interval(interval) => {
                interval_literals::desugar(&mut interval.value);
                expressions::desugar(expr);
            }
            Expr::Function(call) => {
                aggregate_functions::desugar(call);
                expressions::desugar(expr);
                function_aliases::desugar(expr)?;
            }
            Expr::TypedString(typed) => {
                type_names::desugar(&mut typed.data_type);
                expressions::desugar(expr);
            }
            Expr::InList { .. }
            | Expr::CompoundFieldAccess { .. }
            | Expr::Extract { .. }
            | Expr::AtTimeZone { .. } => {
                expressions::desugar(expr);
            }
            Expr::InSubquery { .. } => quantified_comparisons::rows(expr),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<String> {
        if let Statement::CreateTable(table) = statement {
            table.columns.iter_mut().for_each(|column| type_names::desugar(&mut column.data_type));
        }
        ControlFlow::Continue(())
    }
}
