//! Clauses of DuckDB and PostgreSQL that the parser does not know, in those that it does, token by token:
//!
//! - `sum(a) filter (a > 1)` becomes `sum(a) filter (where a > 1)`;
//! - `with t as materialized (…)` becomes `with t as (…)`: what is computed once is the planner's choice;
//! - `table t` becomes `from t`;
//! - `0xff`, `1_000` and `2 ** 3` become `255`, `1000` and `2 ^ 3`.

use super::is_word;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// Puts the clauses into words that the parser knows.
pub(super) fn known(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((token, after)) = rest.split_first() {
        rest = after;
        match &token.token {
            Token::HexStringLiteral(digits) => out.push(hexadecimal(token, digits)),
            Token::Number(digits, long) => {
                let (digits, words, span) = underscored(digits, token.span, after);
                rest = &after[words..];
                out.push(TokenWithSpan { token: Token::Number(digits, *long), span });
            }
            Token::Mul
                if after.first().is_some_and(|next| next.token == Token::Mul && touches(token, next)) =>
            {
                rest = &after[1..];
                out.push(TokenWithSpan { token: Token::Caret, span: token.span });
            }
            Token::LParen
                if opens_filter(&out) && !after.first().is_some_and(|t| is_word(&t.token, "where")) =>
            {
                let place = TokenWithSpan { token: Token::make_keyword("where"), span: token.span };
                out.extend([token.clone(), place]);
            }
            Token::Word(word) if word.keyword == Keyword::TABLE && out.is_empty() => {
                out.push(TokenWithSpan { token: Token::make_keyword("from"), span: token.span });
            }
            Token::Word(word) if word.keyword == Keyword::AS => {
                out.push(token.clone());
                rest = &after[materialized(after)..];
            }
            _ => out.push(token.clone()),
        }
    }
    out
}

/// `0xff` as a number; `x'ff'`, which is longer by its quotes, stays bytes.
fn hexadecimal(token: &TokenWithSpan, digits: &str) -> TokenWithSpan {
    let width = token.span.end.column.saturating_sub(token.span.start.column);
    match u128::from_str_radix(digits, 16) {
        Ok(number) if width == digits.len() as u64 + 2 => {
            TokenWithSpan { token: Token::Number(number.to_string(), false), span: token.span }
        }
        _ => token.clone(),
    }
}

/// The digits of a number and of the words behind it that are `_000`; how many such words there are.
fn underscored(digits: &str, mut span: Span, after: &[TokenWithSpan]) -> (String, usize, Span) {
    let more = |token: &TokenWithSpan, span: Span| match &token.token {
        Token::Word(word) if word.quote_style.is_none() && token.span.start == span.end => {
            let digits = word.value.replace('_', "");
            let only = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            (only && word.value.starts_with('_')).then_some(digits)
        }
        _ => None,
    };
    match after.first().and_then(|next| Some((more(next, span)?, next.span.end))) {
        Some((next, end)) => {
            span.end = end;
            (format!("{digits}{next}"), 1, span)
        }
        None => (digits.to_string(), 0, span),
    }
}

fn touches(left: &TokenWithSpan, right: &TokenWithSpan) -> bool {
    left.span.end == right.span.start
}

/// Whether what was read last is the `filter` of an aggregate.
fn opens_filter(out: &[TokenWithSpan]) -> bool {
    matches!(out, [.., call, filter] if call.token == Token::RParen && is_word(&filter.token, "filter"))
}

/// How many words before a bracket say whether a query is computed once.
fn materialized(after: &[TokenWithSpan]) -> usize {
    let word = |at: usize, word: &str| after.get(at).is_some_and(|t| is_word(&t.token, word));
    let opens = |at: usize| after.get(at).is_some_and(|t| t.token == Token::LParen);
    if word(0, "materialized") && opens(1) {
        return 1;
    }
    if word(0, "not") && word(1, "materialized") && opens(2) { 2 } else { 0 }
}
