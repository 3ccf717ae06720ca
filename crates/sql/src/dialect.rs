//! From text to the parser's tree. What the field writes and the parser does not know is put into words that
//! it does know, token by token, so that places in the text stay right:
//!
//! - `tumble(table clicks, descriptor(time), …)` becomes `tumble(clicks, time, …)`;
//! - `create external table … with (a = 'b')` becomes `… options (a 'b')`, and so does what follows the path
//!   of a `copy`;
//! - a column that is written in other letters than it has is read as what it is called.

use crate::emit::{self, Emit};
use crate::error::syntax;
use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::{CopyToSource, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{Query, Statement as Sql};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};
use std::collections::BTreeMap;

/// How deeply expressions and queries may be nested.
const DEPTH: usize = 200;

/// Parses a query that was written here.
pub(crate) fn parse_query(sql: &str) -> Result<Query> {
    match parse(sql, &Spelling::new())?.0 {
        Statement::Statement(statement) => match *statement {
            Sql::Query(query) => Ok(*query),
            other => plan_err!("{other} is not a query"),
        },
        other => plan_err!("{other} is not a query"),
    }
}

/// How names are to be read that stand at these places (given by their ends): columns whose names have capital
/// letters, written without quotes.
pub(crate) type Spelling = BTreeMap<Location, String>;

/// Parses one statement, and says when its rows are to be handed out.
pub(crate) fn parse(sql: &str, spelling: &Spelling) -> Result<(Statement, Emit)> {
    let tokens =
        Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().map_err(|e| syntax(e.into()))?;
    let tokens = tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_)));
    let (tokens, emit) = emit::taken(tokens.map(|token| spelled(token, spelling)).collect());
    let tokens = options(windows(crate::asof::tokens(tokens)));
    let mut parser = DFParserBuilder::new(tokens).with_recursion_limit(DEPTH).build()?;
    let mut statements = parser.parse_statements()?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(mut statement), true) => {
            reworded(&mut statement)?;
            Ok((statement, emit))
        }
        (None, _) => plan_err!("there is no statement"),
        (Some(_), false) => plan_err!("there are several statements; give them one by one"),
    }
}

/// Puts a statement into words that the planner knows; it may stand in another one.
fn reworded(statement: &mut Statement) -> Result<()> {
    match statement {
        Statement::Statement(statement) => crate::words::known(statement),
        Statement::Explain(explain) => reworded(&mut explain.statement),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => crate::words::known_query(query),
            CopyToSource::Relation(_) => Ok(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => Ok(()),
    }
}

fn spelled(token: TokenWithSpan, spelling: &Spelling) -> TokenWithSpan {
    match (&token.token, spelling.get(&token.span.end)) {
        (Token::Word(_), Some(name)) => {
            let word = Word { value: name.clone(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
            TokenWithSpan { token: Token::Word(word), span: token.span }
        }
        _ => token,
    }
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// Takes `table` before a name and `descriptor( )` around one out of the arguments of functions.
fn windows(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let argument = matches!(out.last().map(|t| &t.token), Some(Token::LParen | Token::Comma));
        let window =
            matches!(&token.token, Token::Word(w) if w.keyword == Keyword::TABLE) && opens_window(&out);
        if window && matches!(tokens.peek().map(|t| &t.token), Some(Token::Word(_))) {
            continue;
        }
        if argument && is_word(&token.token, "descriptor") {
            let opened = tokens.next_if(|t| t.token == Token::LParen);
            let column = opened.and_then(|_| tokens.next_if(|t| matches!(t.token, Token::Word(_))));
            if let Some(column) = column {
                tokens.next_if(|t| t.token == Token::RParen);
                out.push(column);
                continue;
            }
        }
        out.push(token);
    }
    out
}

/// Whether what was read last is the beginning of a call of a window function.
fn opens_window(out: &[TokenWithSpan]) -> bool {
    let [.., name, open] = out else { return false };
    open.token == Token::LParen && crate::windows::NAMES.iter().any(|window| is_word(&name.token, window))
}

/// Writes the options of `create external table` and `copy` as the parser wants them.
fn options(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let copies = tokens.first().is_some_and(|t| is_word(&t.token, "copy"));
    let external = tokens.first().is_some_and(|t| is_word(&t.token, "create"))
        && tokens.iter().take(6).any(|t| is_word(&t.token, "external"));
    if !copies && !external {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut inside = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let opens = tokens.peek().is_some_and(|t| t.token == Token::LParen);
        let keyword = is_word(&token.token, "with") || is_word(&token.token, "options");
        if keyword && opens {
            out.push(options_word(&token));
            inside = true;
            continue;
        }
        let path = matches!(token.token, Token::SingleQuotedString(_));
        let to = out.last().is_some_and(|t| is_word(&t.token, "to"));
        if copies && path && to && opens {
            let word = options_word(&token);
            out.extend([token, word]);
            inside = true;
            continue;
        }
        // Between the parentheses `=` is a matter of taste.
        if inside && matches!(token.token, Token::Eq) {
            continue;
        }
        inside = inside && token.token != Token::RParen;
        out.push(token);
    }
    out
}

fn options_word(at: &TokenWithSpan) -> TokenWithSpan {
    let word = Word { value: "OPTIONS".to_string(), quote_style: None, keyword: Keyword::OPTIONS };
    TokenWithSpan { token: Token::Word(word), span: at.span }
}
