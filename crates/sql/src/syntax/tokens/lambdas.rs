//! `lambda x, y: x + y` as `(x, y) -> x + y`.
//!
//! ```sql
//! select list_transform([1, 2], lambda x: x + 1);
//! -- select list_transform([1, 2], (x) -> x + 1)
//! ```

use super::{are_names, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Writes `lambda x, y:` as `(x, y) ->`.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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
