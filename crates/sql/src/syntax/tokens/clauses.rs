//! Clauses of DuckDB and PostgreSQL that the parser does not know, in those that it does, token by token:
//!
//! - `sum(a) filter (a > 1)` becomes `sum(a) filter (where a > 1)`;
//! - `with t as materialized (…)` becomes `with t as (…)`: what is computed once is the planner's choice;
//! - `table t` becomes `from t`;
//! - `a in ()` gets a reserved name, `a in [1, 2]` in a list; `a in t` in a table; `a is 1` becomes
//!   `a is not distinct from 1`;
//! - `a glob 'x*'` becomes `a ~ '^x.*$'`; `@(a)` becomes `abs(a)`;
//! - `0xff`, `1_000` and `2 ** 3` become `255`, `1000` and `2 ^ 3`.

use super::is_word;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The reserved name that stands in an empty list.
pub(crate) const EMPTY_LIST: &str = "__nothing";

/// Rewrites the clauses from left to right.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((token, after)) = rest.split_first() {
        rest = after;
        match &token.token {
            Token::HexStringLiteral(digits) => out.push(hexadecimal(token, digits)),
            Token::Number(digits, long) => {
                let (digits, words, span) = with_digit_groups(digits, token.span, after);
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
            Token::Word(word) if word.keyword == Keyword::IN => {
                let operand = !matches!(out.first(), Some(first) if is_word(&first.token, "show"))
                    && !is_in_position(&out);
                out.push(token.clone());
                rest = if operand { rewrite_in_list(after, &mut out) } else { after };
            }
            Token::Word(word) if word.keyword == Keyword::IS => {
                rest = rewrite_is(token, after, &mut out);
            }
            Token::Word(word) if word.value.eq_ignore_ascii_case("glob") && word.quote_style.is_none() => {
                match after.first().map(|next| &next.token) {
                    Some(Token::SingleQuotedString(pattern)) => {
                        let pattern = Token::SingleQuotedString(glob(pattern));
                        out.push(TokenWithSpan { token: Token::Tilde, span: token.span });
                        out.push(TokenWithSpan { token: pattern, span: after[0].span });
                        rest = &after[1..];
                    }
                    _ => out.push(token.clone()),
                }
            }
            Token::Word(word)
                if word.value == "@" && after.first().is_some_and(|next| next.token == Token::LParen) =>
            {
                out.push(TokenWithSpan { token: Token::make_word("abs", None), span: token.span });
            }
            Token::AtSign if after.first().is_some_and(|next| next.token == Token::LParen) => {
                out.push(TokenWithSpan { token: Token::make_word("abs", None), span: token.span });
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

/// The digits of a number with a word `_000` behind it, and how many such words there are.
fn with_digit_groups(digits: &str, mut span: Span, after: &[TokenWithSpan]) -> (String, usize, Span) {
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

/// Whether nothing is between two tokens.
fn touches(left: &TokenWithSpan, right: &TokenWithSpan) -> bool {
    left.span.end == right.span.start
}

/// Whether the last tokens are the `filter` of an aggregate.
fn opens_filter(out: &[TokenWithSpan]) -> bool {
    matches!(out, [.., call, filter] if call.token == Token::RParen && is_word(&filter.token, "filter"))
}

/// How many words of `materialized` or `not materialized` precede a parenthesis.
fn materialized(after: &[TokenWithSpan]) -> usize {
    let word = |at: usize, word: &str| after.get(at).is_some_and(|t| is_word(&t.token, word));
    let opens = |at: usize| after.get(at).is_some_and(|t| t.token == Token::LParen);
    if word(0, "materialized") && opens(1) {
        return 1;
    }
    if word(0, "not") && word(1, "materialized") && opens(2) { 2 } else { 0 }
}

/// Rewrites a list behind `in` that is empty or in square brackets, or the name of a table. Returns the rest.
fn rewrite_in_list<'a>(after: &'a [TokenWithSpan], out: &mut Vec<TokenWithSpan>) -> &'a [TokenWithSpan] {
    let put = |token: Token, at: &TokenWithSpan| TokenWithSpan { token, span: at.span };
    match after {
        [open, close, rest @ ..] if open.token == Token::LParen && close.token == Token::RParen => {
            out.extend([open.clone(), put(Token::make_word(EMPTY_LIST, None), close), close.clone()]);
            rest
        }
        [table, rest @ ..] if is_table(&table.token, rest.first()) => {
            let query =
                [Token::LParen, Token::make_keyword("select"), Token::Mul, Token::make_keyword("from")];
            out.extend(query.map(|token| put(token, table)));
            out.extend([table.clone(), put(Token::RParen, table)]);
            rest
        }
        [open, rest @ ..] if open.token == Token::LBracket => match closing(rest) {
            Some(end) => {
                out.push(put(Token::LParen, open));
                out.extend(rewrite(rest[..end].to_vec()));
                out.push(put(Token::RParen, &rest[end]));
                &rest[end + 1..]
            }
            None => after,
        },
        _ => after,
    }
}

/// Whether a token is the name of a table, as in `a in t`.
fn is_table(name: &Token, after: Option<&TokenWithSpan>) -> bool {
    let goes_on = after.is_some_and(|t| matches!(t.token, Token::LParen | Token::Period));
    matches!(name, Token::Word(word) if word.keyword == Keyword::NoKeyword) && !goes_on
}

/// Whether the last tokens are `position(…`, whose `in` is no operator.
fn is_in_position(out: &[TokenWithSpan]) -> bool {
    let mut depth = 0;
    let open = out.iter().rposition(|t| {
        match t.token {
            Token::RParen => depth += 1,
            Token::LParen => depth -= 1,
            _ => {}
        }
        depth < 0
    });
    open.and_then(|at| out.get(at.checked_sub(1)?)).is_some_and(|t| is_word(&t.token, "position"))
}

/// The position of the square bracket that closes the one before these tokens.
fn closing(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 1;
    tokens.iter().position(|t| {
        match t.token {
            Token::LBracket => depth += 1,
            Token::RBracket => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// Rewrites `is` before a value. Returns the rest.
fn rewrite_is<'a>(
    is: &TokenWithSpan,
    after: &'a [TokenWithSpan],
    out: &mut Vec<TokenWithSpan>,
) -> &'a [TokenWithSpan] {
    let (negated, value) = match after.split_first() {
        Some((not, rest)) if is_word(&not.token, "not") => (true, rest),
        _ => (false, after),
    };
    let predicates =
        ["null", "true", "false", "unknown", "distinct", "normalized", "nfc", "nfd", "nfkc", "nfkd", "json"];
    let begins = value.first().is_some_and(|next| match &next.token {
        Token::Word(_) => !predicates.iter().any(|word| is_word(&next.token, word)),
        Token::Number(..) | Token::SingleQuotedString(_) | Token::LParen | Token::Minus => true,
        _ => false,
    });
    out.push(is.clone());
    if !begins {
        return after;
    }
    let words: &[&str] = if negated { &["distinct", "from"] } else { &["not", "distinct", "from"] };
    out.extend(words.iter().map(|word| TokenWithSpan { token: Token::make_keyword(word), span: is.span }));
    value
}

/// A shell pattern as a regular expression.
fn glob(pattern: &str) -> String {
    let mut out = String::from("^");
    let mut inside = false;
    for c in pattern.chars() {
        match c {
            '*' if !inside => out.push_str("(?s:.*)"),
            '?' if !inside => out.push_str("(?s:.)"),
            '[' if !inside => {
                inside = true;
                out.push('[');
            }
            '!' if inside && out.ends_with('[') => out.push('^'),
            ']' if inside => {
                inside = false;
                out.push(']');
            }
            c if inside || c.is_alphanumeric() || c == '_' || c == ' ' => out.push(c),
            c => out.extend(['\\', c]),
        }
    }
    out.push('$');
    out
}
