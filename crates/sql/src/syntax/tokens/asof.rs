//! `asof join … on …`: the parser wants a `match_condition(…)` before the constraint.
//!
//! ```sql
//! a asof left join b on a.t >= b.t
//! -- a asof join b match_condition(false) on a.t >= b.t
//! ```

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Adds a `match_condition(…)`: `false` in an outer join, which keeps rows without a match.
pub(super) fn with_match_conditions(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The joins whose constraint has not come yet: their depth in parentheses, and whether they are inner.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut depth = 0_usize;
    for token in tokens {
        let keyword = match &token.token {
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        };
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        let after_asof = out.last().is_some_and(|t| is(t, Keyword::ASOF));
        let here = open.last().is_some_and(|(at, _)| *at == depth);
        match keyword {
            Keyword::INNER | Keyword::LEFT if after_asof => {
                open.push((depth, keyword == Keyword::INNER));
                continue;
            }
            Keyword::OUTER if after_asof => continue,
            Keyword::JOIN if after_asof && !here => open.push((depth, true)),
            Keyword::MATCH_CONDITION if here => {
                open.pop();
            }
            Keyword::ON | Keyword::USING if here => {
                let inner = open.pop().is_some_and(|(_, inner)| inner);
                out.extend(match_condition(inner, &token));
            }
            _ => {}
        }
        out.push(token);
    }
    out
}

/// Whether a token is this keyword, unquoted.
fn is(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// The tokens of a `match_condition(…)`.
fn match_condition(inner: bool, at: &TokenWithSpan) -> impl Iterator<Item = TokenWithSpan> {
    let word =
        |value: &str, keyword| Token::Word(Word { value: value.to_string(), quote_style: None, keyword });
    let outcome = if inner { word("true", Keyword::TRUE) } else { word("false", Keyword::FALSE) };
    let tokens = [word("match_condition", Keyword::MATCH_CONDITION), Token::LParen, outcome, Token::RParen];
    let span = at.span;
    tokens.into_iter().map(move |token| TokenWithSpan { token, span })
}
