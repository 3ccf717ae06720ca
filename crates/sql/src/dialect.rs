//! From text to the parser's tree. What the field writes and the parser does not know is put into words that
//! it does know, token by token, so that places in the text stay right:
//!
//! - `tumble(table clicks, descriptor(time), …)` becomes `tumble(clicks, time, …)`;
//! - `create external table … with (a = 'b')` becomes `… options (a 'b')`, and so does what follows the path
//!   of a `copy`;
//! - `summarize t` becomes `from t`, and what is wanted of it is remembered;
//! - `lambda x, y: x + y` becomes `(x, y) -> x + y`;
//! - the type `struct(a int)` becomes `struct<a int>`;
//! - `copy t from 'x.csv'` becomes an insert, `insert into t by name` one with a column of ours (`changes`);
//! - clauses that the parser does not have become those that it has (`clauses`);
//! - a column that is written in other letters than it has is read as what it is called.

mod changes;
mod clauses;
mod refused;

pub(crate) use changes::{BY_NAME, LIKE};
pub(crate) use clauses::NOTHING;

use crate::depth;
use crate::emit::{self, Emit};
use crate::error::{self, syntax};
use crate::grammar;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::sql::parser::{CopyToSource, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{Query, Statement as Sql};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::vec::IntoIter;
use whimbrel_plan::with_room_for;

/// How deeply expressions and queries may be nested.
const DEPTH: usize = 200;

/// Parses a query that was written here.
pub(crate) fn parse_query(sql: &str) -> Result<Query> {
    match parse(sql, &Spelling::default())?.statement {
        Statement::Statement(statement) => match *statement {
            Sql::Query(query) => Ok(*query),
            other => plan_err!("{other} is not a query"),
        },
        other => plan_err!("{other} is not a query"),
    }
}

/// What the planner said of a statement that it did not understand as it was written.
#[derive(Debug, Default)]
pub(crate) struct Spelling {
    /// How names are to be read that stand at these places (given by their ends): columns whose names have capital
    /// letters, written without quotes.
    pub letters: BTreeMap<Location, String>,
    /// Columns of structs whose fields a subquery reads from outside.
    pub structs: BTreeSet<String>,
    /// Where a name stands (given by its end) that no column has; it may be an alias of the same select.
    pub aliases: BTreeSet<Location>,
}

impl Spelling {
    /// Takes in what an error says; whether that is new.
    pub fn learn(&mut self, error: &DataFusionError) -> bool {
        if let Some((place, name)) = error::respelled(error) {
            return self.letters.insert(place, name).is_none();
        }
        if let Some(place) = error::unknown(error) {
            return self.aliases.insert(place);
        }
        error::outer_struct(error).is_some_and(|column| self.structs.insert(column))
    }
}

/// A statement.
pub(crate) struct Parsed {
    /// What it says.
    pub statement: Statement,
    /// When its rows are to be handed out.
    pub emit: Emit,
    /// Whether what is wanted is a summary of its rows.
    pub summarized: bool,
}

/// Parses one statement.
pub(crate) fn parse(sql: &str, spelling: &Spelling) -> Result<Parsed> {
    let tokens =
        Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().map_err(|e| syntax(e.into()))?;
    let tokens = tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_)));
    let (tokens, emit) = emit::taken(numbered(tokens).map(|token| spelled(token, spelling)).collect());
    refused::none(&tokens)?;
    let (tokens, summarized) = summary(tokens);
    let tokens = clauses::known(changes::known(tokens));
    let tokens = options(structs(lambdas(windows(crate::asof::tokens(tokens)))));
    // A tree that is too deep may be as deep as there are words.
    let levels = tokens.len();
    with_room_for(levels, || {
        let mut statement = only(tokens)?;
        depth::flattened(&mut statement)?;
        grammar::known(&statement)?;
        reworded(&mut statement)?;
        grammar::calls(&statement)?;
        if let Statement::Statement(statement) = &mut statement {
            crate::words::called(statement, &spelling.structs);
            crate::words::aliases_in_place(statement, &spelling.aliases);
        }
        Ok(Parsed { statement, emit, summarized })
    })
}

/// The only statement that there is.
fn only(tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    let mut parser = DFParserBuilder::new(tokens).with_recursion_limit(DEPTH).build()?;
    let mut statements = parser.parse_statements()?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
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

/// Each `?` with its number, written `?01`: words may say an expression twice, or in another order.
fn numbered(tokens: impl Iterator<Item = TokenWithSpan>) -> impl Iterator<Item = TokenWithSpan> {
    let mut number = 0;
    tokens.map(move |mut token| {
        if let Token::Placeholder(place) = &mut token.token
            && place == "?"
        {
            number += 1;
            *place = format!("?0{number}");
        }
        token
    })
}

fn spelled(token: TokenWithSpan, spelling: &Spelling) -> TokenWithSpan {
    match (&token.token, spelling.letters.get(&token.span.end)) {
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

/// Takes `summarize` from before a query; of a table, it is a summary of all of it.
fn summary(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, bool) {
    if !tokens.first().is_some_and(|t| is_word(&t.token, "summarize")) {
        return (tokens, false);
    }
    let query = ["select", "with", "from", "values"];
    let opens =
        |t: &TokenWithSpan| t.token == Token::LParen || query.iter().any(|word| is_word(&t.token, word));
    match tokens.get(1).is_some_and(opens) {
        true => drop(tokens.remove(0)),
        false => tokens[0].token = Token::make_keyword("from"),
    }
    (tokens, true)
}

/// Takes `table` before a name and `descriptor( )` around one out of the arguments of functions. What a table of a session is
/// partitioned by comes last.
fn windows(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    // Calls whose end has not come yet: at which depth they stand, and their columns.
    let mut partitioned: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    let mut depth = 0_usize;
    while let Some(token) = tokens.next() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => {
                if let Some((_, columns)) = partitioned.pop_if(|(at, _)| *at == depth) {
                    out.extend(columns);
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        let before = out.last().map(|t| &t.token);
        let argument = matches!(before, Some(Token::LParen | Token::Comma | Token::RArrow));
        let window =
            matches!(&token.token, Token::Word(w) if w.keyword == Keyword::TABLE) && opens_window(&out);
        if window && matches!(tokens.peek().map(|t| &t.token), Some(Token::Word(_))) {
            out.extend(tokens.next());
            if tokens.peek().is_some_and(|t| is_word(&t.token, "partition")) {
                partitioned.push((depth, partition(&mut tokens)));
            }
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

/// Takes `partition by a`, or `partition by (a, b)`; gives the columns, each after a comma.
fn partition(tokens: &mut Peekable<IntoIter<TokenWithSpan>>) -> Vec<TokenWithSpan> {
    tokens.next();
    let Some(by) = tokens.next_if(|t| is_word(&t.token, "by")) else { return vec![] };
    let comma = TokenWithSpan { token: Token::Comma, span: by.span };
    let mut columns = Vec::new();
    let many = tokens.next_if(|t| t.token == Token::LParen).is_some();
    while let Some(column) = tokens.next_if(|t| matches!(t.token, Token::Word(_))) {
        columns.extend([comma.clone(), column]);
        if !many || tokens.next_if(|t| t.token == Token::Comma).is_none() {
            break;
        }
    }
    if many {
        tokens.next_if(|t| t.token == Token::RParen);
    }
    columns
}

/// Whether what was read last is the beginning of a call of a window function, or of its argument `data`.
fn opens_window(out: &[TokenWithSpan]) -> bool {
    let opens = |out: &[TokenWithSpan]| match out {
        [.., name, open] => {
            open.token == Token::LParen
                && crate::windows::NAMES.iter().any(|window| is_word(&name.token, window))
        }
        _ => false,
    };
    match out {
        [before @ .., name, arrow] if arrow.token == Token::RArrow && is_word(&name.token, "data") => {
            opens(before)
        }
        out => opens(out),
    }
}

/// Writes `lambda x, y:` as `(x, y) ->`.
fn lambdas(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((token, after)) = rest.split_first() {
        rest = after;
        let opens = is_word(&token.token, "lambda");
        match opens.then(|| after.iter().position(|t| t.token == Token::Colon)).flatten() {
            Some(colon) if are_names(&after[..colon]) => {
                let span = after[colon].span;
                let put = |token, span| TokenWithSpan { token, span };
                out.push(put(Token::LParen, token.span));
                out.extend_from_slice(&after[..colon]);
                out.extend([put(Token::RParen, span), put(Token::Arrow, span)]);
                rest = &after[colon + 1..];
            }
            _ => out.push(token.clone()),
        }
    }
    out
}

/// Whether these are names with commas between them.
fn are_names(tokens: &[TokenWithSpan]) -> bool {
    let name = |t: &TokenWithSpan| matches!(t.token, Token::Word(_));
    let fits = |(at, t): (usize, &TokenWithSpan)| if at % 2 == 0 { name(t) } else { t.token == Token::Comma };
    tokens.len() % 2 == 1 && tokens.iter().enumerate().all(fits)
}

/// Writes types `struct(…)` with angle brackets: after `::` and `as`, and behind the name of a column or a field.
fn structs(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for at in 1..tokens.len() {
        let opens = tokens.get(at + 1).is_some_and(|t| t.token == Token::LParen);
        if !(opens && is_word(&tokens[at].token, "struct") && stands_for_type(&tokens[..at])) {
            continue;
        }
        if let Some(end) = closing(&tokens, at + 1) {
            tokens[at + 1].token = Token::Lt;
            tokens[end].token = Token::Gt;
        }
    }
    tokens
}

/// Whether a type follows what was read last.
fn stands_for_type(before: &[TokenWithSpan]) -> bool {
    let begins = |t: &TokenWithSpan| matches!(t.token, Token::LParen | Token::Lt | Token::Comma);
    match before {
        [.., last] if last.token == Token::DoubleColon || is_word(&last.token, "as") => true,
        [.., first, TokenWithSpan { token: Token::Word(name), .. }] => {
            use Keyword::{ALL, CASE, DISTINCT, NOT, SELECT};
            begins(first) && ![ALL, CASE, DISTINCT, NOT, SELECT].contains(&name.keyword)
        }
        _ => false,
    }
}

/// The bracket that closes the one at this place.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0;
    let at = tokens[open..].iter().position(|t| {
        match t.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    Some(open + at)
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
        // A name alone says that it is so.
        let named = out.last().is_some_and(|t| matches!(t.token, Token::LParen | Token::Comma));
        let ends = tokens.peek().is_some_and(|t| matches!(t.token, Token::RParen | Token::Comma));
        let truth = inside && named && ends && matches!(token.token, Token::Word(_));
        let span = token.span;
        out.push(token);
        if truth {
            out.push(TokenWithSpan { token: Token::SingleQuotedString("true".to_string()), span });
        }
    }
    out
}

fn options_word(at: &TokenWithSpan) -> TokenWithSpan {
    let word = Word { value: "OPTIONS".to_string(), quote_style: None, keyword: Keyword::OPTIONS };
    TokenWithSpan { token: Token::Word(word), span: at.span }
}
