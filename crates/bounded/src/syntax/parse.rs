//! From text to the parser's tree, and what is ours taken off before: the parser knows none of it.
//!
//! - `… paginate 10`, `… allow unbounded 'reason'` at the end of a query;
//! - `cardinality limit 100 (owner)` among the constraints of a table, `alter table t add cardinality limit
//!   …`;
//! - `title like [token] ?`, `(first, last) like [token] ?`: read as `@@`, then as `has_token(word,
//!   columns…)`;
//! - `limit ? at most 50`: how many rows are wanted is given with the call, and the most that it can be;
//! - `owner in (? limit 50)`: a list that is given with the call, and its greatest length;
//! - `?` and `:name` as `$1`, `$2`, …; `upsert into` as `insert into`.
//!
//! Tokens keep their places, so that an error shows the text as it was written.

use super::clauses::{
    DeclaredLimit, Parameter, alters_limits, parameter_number, parameters, rewrite_token_search,
    take_allowed, take_limits, take_most_rows, take_paginate, take_upsert,
};
use super::rewrite::{Rewriter, use_table_name};
use super::tokens::{check_chains, syntax_error, tokens};
use crate::error::{Error, Result};
use crate::number::Number;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, SelectItem, Statement, TableFactor, TableWithJoins, UnaryOperator, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use std::ops::ControlFlow;
use whimbrel_sql::walk::walk_mut;

/// How deeply expressions and queries may be nested.
const DEPTH: usize = 100;
/// A statement, and what is ours of it.
#[derive(Debug, Clone)]
pub(crate) struct Parsed {
    /// The statement, as the parser has it.
    pub statement: Statement,
    /// Rows a page.
    pub paginate: Option<u64>,
    /// Why it may run without a bound.
    pub allowed: Option<String>,
    /// The parameters, in the order of the call.
    pub parameters: Vec<Parameter>,
    /// The insert is an upsert.
    pub upsert: bool,
    /// What a write returns of the rows that it wrote.
    pub returning: Option<Returning>,
    /// Cardinality limits of `create table` or `alter table`.
    pub limits: Vec<DeclaredLimit>,
}

/// `returning a, b`
#[derive(Debug, Clone)]
pub(crate) struct Returning {
    pub items: Vec<SelectItem>,
    /// What the statement calls the table, if it has another name for it.
    pub alias: Option<Ident>,
}

/// Reads one statement, and refuses what would be passed over.
pub(crate) fn parse(sql: &str) -> Result<Parsed> {
    let parsed = read(sql)?;
    super::unsupported::check(&parsed.statement)?;
    Ok(parsed)
}

/// The same, with clauses in it that somebody else has to take out: the planner would pass over them.
pub(super) fn read(sql: &str) -> Result<Parsed> {
    let mut tokens = tokens(sql)?;
    check_chains(&tokens)?;
    let limits = take_limits(&mut tokens)?;
    let allowed = take_allowed(&mut tokens)?;
    let paginate = take_paginate(&mut tokens)?;
    let upsert = take_upsert(&mut tokens);
    rewrite_token_search(&mut tokens);
    let mut parameters = parameters(&mut tokens)?;
    take_most_rows(&mut tokens, &mut parameters)?;
    let statement = match alters_limits(&tokens, &limits) {
        // The parser knows no `alter table t add` without anything behind it.
        true => alter_nothing(tokens)?,
        false => statement(tokens)?,
    };
    let (statement, returning) = without_returning(statement);
    Ok(Parsed { statement, paginate, allowed, parameters, upsert, returning, limits })
}

/// `… returning a, b`, which the planner does not know.
fn without_returning(mut statement: Statement) -> (Statement, Option<Returning>) {
    let (items, alias) = match &mut statement {
        Statement::Insert(insert) => (insert.returning.take(), None),
        Statement::Update(update) => (update.returning.take(), alias(&update.table)),
        Statement::Delete(delete) => {
            use_table_name(delete);
            (delete.returning.take(), None)
        }
        _ => (None, None),
    };
    (statement, items.map(|items| Returning { items, alias }))
}

impl Parsed {
    /// The statement with numbers in place of some parameters.
    pub fn with_numbers(mut self, numbers: &[(usize, Number)]) -> Parsed {
        // The visitor never breaks off.
        let _: ControlFlow<()> = walk_mut(&mut self.statement, &mut Numbers(numbers));
        self
    }
}

/// A visitor that puts numbers in place of parameters.
struct Numbers<'n>(&'n [(usize, Number)]);

impl VisitorMut for Numbers<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(value) = expr
            && let Value::Placeholder(id) = &value.value
            && let Some((_, number)) = self.0.iter().find(|(at, _)| parameter_number(id) == Some(*at))
            && let Some(text) = number.text()
        {
            let number = |text: &str| Expr::Value(Value::Number(text.to_string(), false).with_empty_span());
            *expr = match text.strip_prefix('-') {
                Some(text) => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number(text)) },
                None => number(&text),
            };
        }
        ControlFlow::Continue(())
    }
}

/// The alias of a table, if it has one.
fn alias(table: &TableWithJoins) -> Option<Ident> {
    match &table.relation {
        TableFactor::Table { alias, .. } => alias.as_ref().map(|alias| alias.name.clone()),
        _ => None,
    }
}

/// Parses tokens that are one statement.
fn statement(tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    let dialect = GenericDialect {};
    let mut parser = Parser::new(&dialect).with_recursion_limit(DEPTH).with_tokens_with_locations(tokens);
    let mut statement = parser.parse_statement().map_err(syntax_error)?;
    if parser.peek_token().token != Token::EOF {
        let found = parser.peek_token();
        return Err(syntax_error(ParserError::ParserError(format!(
            "Expected: end of statement, found: {found}{}",
            found.span.start
        ))));
    }
    match walk_mut(&mut statement, &mut Rewriter) {
        ControlFlow::Continue(()) => Ok(statement),
        ControlFlow::Break(message) => Err(Error::invalid(message)),
    }
}

/// Reads it as an alteration that does nothing but name the table.
fn alter_nothing(mut tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    let Some(add) = tokens.pop() else { return Err(Error::invalid("there is no statement")) };
    let words = ["drop", "column", "none"].map(|word| {
        let keyword = match word {
            "drop" => Keyword::DROP,
            "column" => Keyword::COLUMN,
            _ => Keyword::NoKeyword,
        };
        let word = Word { value: word.to_string(), quote_style: None, keyword };
        TokenWithSpan { token: Token::Word(word), span: add.span }
    });
    tokens.extend(words);
    statement(tokens)
}
