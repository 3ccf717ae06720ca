//! `create external table … with (a = 'b')` as `… options (a 'b')`, and so what follows the path of a `copy`.
//!
//! ```sql
//! copy t to 'x.csv' (header, delimiter ';');
//! -- copy t to 'x.csv' options (header 'true', delimiter ';')
//! ```

use super::is_word;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Writes the options of `create external table` and `copy` as the parser wants them.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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
        // `=` is optional.
        if inside && matches!(token.token, Token::Eq) {
            continue;
        }
        inside = inside && token.token != Token::RParen;
        // A name alone is true.
        let named = out.last().is_some_and(|t| matches!(t.token, Token::LParen | Token::Comma));
        let ends = tokens.peek().is_some_and(|t| matches!(t.token, Token::RParen | Token::Comma));
        let is_flag = inside && named && ends && matches!(token.token, Token::Word(_));
        let span = token.span;
        out.push(token);
        if is_flag {
            out.push(TokenWithSpan { token: Token::SingleQuotedString("true".to_string()), span });
        }
    }
    out
}

/// The keyword `options`.
fn options_word(at: &TokenWithSpan) -> TokenWithSpan {
    let word = Word { value: "OPTIONS".to_string(), quote_style: None, keyword: Keyword::OPTIONS };
    TokenWithSpan { token: Token::Word(word), span: at.span }
}
