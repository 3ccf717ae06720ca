//! Clauses that the parser does not know, as ones that it knows, token by token, so that places in the text
//! stay right.
//!
//! Invariant: a rewrite keeps the spans of the tokens that it keeps, and gives those that it adds the span of
//! the token that they stand for.

mod asof;
mod clauses;
mod interval_numbers;
mod interval_units;
mod lambdas;
mod match_recognize;
mod null_tests;
mod options;
mod table_changes;
mod time_function_arguments;
mod types;
mod unsupported;

pub(crate) use clauses::EMPTY_LIST;
pub(crate) use match_recognize::{EXCLUDED, INPUT, SUBSET, WITHIN};
pub(crate) use table_changes::{BY_NAME, LIKE};
pub(super) use unsupported::refuse_unsupported;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, TokenizerError};

/// A rewrite of the tokens of one statement.
type Rewrite = fn(Vec<TokenWithSpan>) -> Vec<TokenWithSpan>;

/// The rewrites, in the order in which they are applied.
const REWRITES: [Rewrite; 11] = [
    null_tests::rewrite,
    interval_numbers::rewrite,
    interval_units::rewrite,
    match_recognize::rewrite,
    table_changes::rewrite,
    clauses::rewrite,
    asof::with_match_conditions,
    time_function_arguments::rewrite,
    lambdas::rewrite,
    types::rewrite,
    options::rewrite,
];

/// The tokens of a text, without white space and comments.
///
/// # Errors
/// If a string or a comment does not end.
pub(super) fn tokenize(sql: &str) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location()?;
    Ok(tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect())
}

/// Rewrites the clauses of a statement that the parser does not know.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    REWRITES.iter().fold(tokens, |tokens, rewrite| rewrite(tokens))
}

/// Numbers each `?`, as `?01`: rewrites may repeat or reorder expressions. One in a pattern of rows is a
/// quantifier.
pub(super) fn number_placeholders(tokens: Vec<TokenWithSpan>) -> impl Iterator<Item = TokenWithSpan> {
    let mut number = 0;
    let quantifiers = match_recognize::quantifiers(&tokens);
    tokens.into_iter().zip(quantifiers).map(move |(mut token, is_quantifier)| {
        if let Token::Placeholder(place) = &mut token.token
            && place == "?"
            && !is_quantifier
        {
            number += 1;
            *place = format!("?0{number}");
        }
        token
    })
}

/// Takes `summarize` off a query, or makes `from t` of `summarize t`. Returns whether it was there.
pub(super) fn take_summarize(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, bool) {
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

/// Whether a token is this word, unquoted and in any case.
pub(super) fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// Whether tokens are names with commas between them.
fn are_names(tokens: &[TokenWithSpan]) -> bool {
    let name = |t: &TokenWithSpan| matches!(t.token, Token::Word(_));
    let fits = |(at, t): (usize, &TokenWithSpan)| if at % 2 == 0 { name(t) } else { t.token == Token::Comma };
    tokens.len() % 2 == 1 && tokens.iter().enumerate().all(fits)
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

/// The bracket that opens the one at this place.
fn opening(tokens: &[TokenWithSpan], close: usize) -> Option<usize> {
    let mut depth = 0;
    tokens[..=close].iter().rposition(|t| {
        match t.token {
            Token::RParen => depth += 1,
            Token::LParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}
