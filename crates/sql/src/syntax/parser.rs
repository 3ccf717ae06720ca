//! The parser proper: tokens to a tree, with nothing rewritten in it.
//!
//! The rewrites of `desugar` build small queries from text; these are parsed here too, so that nothing here
//! may depend on a rewrite.

use super::depth;
use super::tokens;
use crate::error::syntax;
use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{Query, Statement as Sql};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use whimbrel_plan::with_room_for;

/// How deeply expressions and queries may be nested.
const DEPTH: usize = 200;

/// Parses the only statement that the tokens make.
///
/// # Errors
/// `SQL` if the parser refuses it, `Plan` if there is none, or more than one.
pub(super) fn statement(tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    let mut parser = DFParserBuilder::new(tokens).with_recursion_limit(DEPTH).build()?;
    let mut statements = parser.parse_statements()?;
    let mut statement = match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => statement,
        (None, _) => return plan_err!("there is no statement"),
        (Some(_), false) => return plan_err!("there are several statements; give them one by one"),
    };
    depth::flatten(&mut statement)?;
    Ok(statement)
}

/// Parses a query that this crate has written, in the parser's own dialect.
///
/// # Errors
/// As [`statement`]; `Plan` if it is not a query.
pub(super) fn query(sql: &str) -> Result<Query> {
    let tokens = tokens::tokenize(sql).map_err(|e| syntax(e.into()))?;
    // A tree that is too deep may be as deep as there are tokens.
    match with_room_for(tokens.len(), || statement(tokens))? {
        Statement::Statement(statement) => only_query(*statement),
        other => plan_err!("{other} is not a query"),
    }
}

/// The query that a statement is.
///
/// # Errors
/// `Plan` if it is anything else.
pub(super) fn only_query(statement: Sql) -> Result<Query> {
    match statement {
        Sql::Query(query) => Ok(*query),
        other => plan_err!("{other} is not a query"),
    }
}
