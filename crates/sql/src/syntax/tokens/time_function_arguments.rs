//! Flink's arguments of functions over rows with time, as those of this grammar:
//! `tumble(table clicks, descriptor(time), …)` as `tumble(clicks, time, …)`.
//!
//! ```sql
//! select * from session(table clicks partition by item, descriptor(time), interval '5' minute);
//! -- select * from session(clicks, time, interval '5' minute, item)
//! ```

use super::is_word;
use crate::syntax::TIME_FUNCTIONS;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::iter::Peekable;
use std::vec::IntoIter;

/// Drops `table` before a name and `descriptor( )` around one. The columns that a table is partitioned by
/// become the last arguments.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter().peekable();
    // Calls whose end has not come yet: their depth in parentheses, and their columns.
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
        let is_table =
            matches!(&token.token, Token::Word(w) if w.keyword == Keyword::TABLE) && opens_call(&out);
        if is_table && matches!(tokens.peek().map(|t| &t.token), Some(Token::Word(_))) {
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

/// Takes `partition by a` or `partition by (a, b)`. Returns the columns, each after a comma.
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

/// Whether the last tokens begin a call of such a function, or its argument `data`.
fn opens_call(out: &[TokenWithSpan]) -> bool {
    let opens = |out: &[TokenWithSpan]| match out {
        [.., name, open] => {
            open.token == Token::LParen && TIME_FUNCTIONS.iter().any(|known| is_word(&name.token, known))
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
