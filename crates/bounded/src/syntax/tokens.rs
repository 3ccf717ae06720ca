//! The tokens of a statement, and names as they are written.

use crate::error::{Error, Result};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, Keyword, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_ALIAS,
};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};
use std::borrow::Cow;

/// How many operators may follow each other: `a + b + c` is as deep as `(a + b) + c`.
const CHAIN: usize = 1000;

/// The tokens of a statement, without white space, comments and the semicolon at the end.
pub(super) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| syntax_error(error.into()))?;
    let mut tokens: Vec<TokenWithSpan> = tokens
        .into_iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
        .collect();
    while tokens.last().is_some_and(|token| token.token == Token::SemiColon) {
        tokens.pop();
    }
    Ok(tokens)
}

/// Whether a token is this keyword.
pub(super) fn is(token: Option<&TokenWithSpan>, word: &str) -> bool {
    matches!(token.map(|t| &t.token), Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// The number that a token is.
pub(super) fn number(token: Option<&TokenWithSpan>) -> Option<u64> {
    match &token?.token {
        Token::Number(text, _) => text.parse().ok(),
        _ => None,
    }
}

/// A name as SQL reads it: in small letters unless it is quoted.
pub(super) fn name(word: &Word) -> String {
    match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_lowercase(),
    }
}

/// A name as it has to be written, quotes and all.
pub(crate) fn quote_name(name: &str) -> Cow<'_, str> {
    let is_plain_word = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let keyword = ALL_KEYWORDS.binary_search(&name.to_uppercase().as_str());
    let reserved = keyword.is_ok_and(|at| {
        let keyword = &ALL_KEYWORDS_INDEX[at];
        RESERVED_FOR_TABLE_ALIAS.contains(keyword) || RESERVED_FOR_COLUMN_ALIAS.contains(keyword)
    });
    match is_plain_word && !reserved {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("\"{}\"", name.replace('"', "\"\""))),
    }
}

/// The error of the parser.
pub(super) fn syntax_error(error: ParserError) -> Error {
    Error::Invalid(DataFusionError::SQL(Box::new(error), None))
}

/// Refuses chains of operators that would be nested too deeply, which the parser does not count.
pub(super) fn check_chains(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut chains = vec![0];
    for token in tokens {
        match token.token {
            Token::LParen | Token::LBracket => chains.push(0),
            Token::RParen | Token::RBracket if chains.len() > 1 => {
                chains.pop();
            }
            Token::Comma => chains.last_mut().into_iter().for_each(|chain| *chain = 0),
            _ if is_operator(token) => chains.last_mut().into_iter().for_each(|chain| *chain += 1),
            _ => {}
        }
        if chains.last().is_some_and(|chain| *chain > CHAIN) {
            return Err(Error::invalid(format!(
                "more than {CHAIN} operators in a row; for values of one column write in (…), or give them as a list: \
                 in (? limit 50)"
            )));
        }
    }
    Ok(())
}

/// Whether what is before a token becomes a part of what is behind it.
fn is_operator(token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::Mod
        | Token::StringConcat
        | Token::DoubleColon
        | Token::Eq
        | Token::Neq
        | Token::Lt
        | Token::Gt
        | Token::LtEq
        | Token::GtEq => true,
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::LIKE
                | Keyword::JOIN
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
        ),
        _ => false,
    }
}
