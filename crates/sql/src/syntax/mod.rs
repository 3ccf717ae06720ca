//! From text to a checked tree of the parser's, in words that DataFusion's planner knows. Nothing here knows
//! of plans.
//!
//! The steps of [`parse`], in order:
//! 1. `tokens`: clauses that the parser does not know are rewritten token by token;
//! 2. `parser`, `depth`: the tree, with long chains flattened and trees that are too deep refused;
//! 3. `grammar`: what the parser takes and nothing else does is refused;
//! 4. `desugar`: what DataFusion's planner does not know is rewritten as what it knows.
//!
//! [`normalize`] follows just before a query is planned: it gives output columns unique names.

pub(crate) mod ast;
mod depth;
pub(crate) mod desugar;
mod emit;
mod grammar;
pub(crate) mod names;
pub(crate) mod normalize;
pub(crate) mod parameters;
mod parser;
pub(crate) mod script;
mod spelling;
pub(crate) mod tokens;
pub mod walk;

pub(crate) use emit::Emit;
pub(crate) use spelling::Spelling;

use crate::error::syntax;
use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::Query;
use whimbrel_plan::with_room_for;

/// The table functions over rows with time.
pub(crate) const TIME_FUNCTIONS: [&str; 5] = ["tumble", "hop", "session", "cumulate", "fill_gaps"];

/// A statement as it was parsed.
pub(crate) struct Parsed {
    /// The statement, desugared.
    pub statement: Statement,
    /// When its rows are output.
    pub emit: Emit,
    /// Whether `summarize` stands before it.
    pub summarize: bool,
}

/// Parses one statement.
///
/// # Errors
/// `SQL` if the parser refuses it, `Plan` if nothing here takes one of its clauses.
pub(crate) fn parse(sql: &str, spelling: &Spelling) -> Result<Parsed> {
    let tokens = tokens::tokenize(sql).map_err(|e| syntax(e.into()))?;
    let tokens = tokens::number_placeholders(tokens).map(|token| spelling.respell(token)).collect();
    let (tokens, emit) = emit::take_emit(tokens)?;
    tokens::refuse_unsupported(&tokens)?;
    let (tokens, summarize) = tokens::take_summarize(tokens);
    let tokens = tokens::rewrite(tokens);
    // A tree that is too deep may be as deep as there are tokens.
    let levels = tokens.len();
    with_room_for(levels, || {
        let mut statement = parser::statement(tokens)?;
        grammar::check_clauses(&statement)?;
        desugar(&mut statement)?;
        grammar::check_calls(&statement)?;
        if let Statement::Statement(statement) = &mut statement {
            desugar::outer_struct_fields(statement, &spelling.outer_structs);
            desugar::inline_aliases(statement, &spelling.aliases);
        }
        Ok(Parsed { statement, emit, summarize })
    })
}

/// Parses a query that this crate has written.
///
/// # Errors
/// As [`parse`]; `Plan` if it is not a query.
pub(crate) fn parse_query(sql: &str) -> Result<Query> {
    match parse(sql, &Spelling::default())?.statement {
        Statement::Statement(statement) => parser::only_query(*statement),
        other => plan_err!("{other} is not a query"),
    }
}

/// Desugars a statement, or the one that it explains or copies.
fn desugar(statement: &mut Statement) -> Result<()> {
    match statement {
        Statement::Statement(statement) => desugar::statement(statement),
        Statement::Explain(explain) => desugar(&mut explain.statement),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => desugar::query(query),
            CopyToSource::Relation(_) => Ok(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => Ok(()),
    }
}
