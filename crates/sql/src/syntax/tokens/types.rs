//! The type `struct(a int)` as `struct<a int>`.
//!
//! ```sql
//! create table t (s struct(a int, b struct(c text)));
//! -- create table t (s struct<a int, b struct<c text>>)
//! ```

use super::{closing, is_word};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Rewrites `struct(…)` after `::` and `as`, and behind the name of a column or a field.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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

/// Whether a type follows these tokens.
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
