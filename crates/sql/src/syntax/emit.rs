//! `emit changes` and `emit final`, at the end of a statement: when its rows are output.

use super::tokens::is_word;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// When the rows of a query are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Emit {
    /// When nothing can change them any more.
    #[default]
    Final,
    /// At once, and again when they change.
    Changes,
}

/// Takes `emit …` off the end of a statement.
pub(crate) fn take_emit(mut tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Emit) {
    let open = |t: &TokenWithSpan| !matches!(t.token, Token::EOF | Token::SemiColon);
    let end = tokens.iter().rposition(open).map_or(0, |last| last + 1);
    let word = |t: &TokenWithSpan, word: &str| is_word(&t.token, word);
    let emit = match &tokens[..end] {
        // A statement does not begin with it, and `select emit from final` ends with another word before it.
        [_, .., emit, when] if word(emit, "emit") && word(when, "changes") => Emit::Changes,
        [_, .., emit, when] if word(emit, "emit") && word(when, "final") => Emit::Final,
        _ => return (tokens, Emit::Final),
    };
    tokens.drain(end - 2..end);
    (tokens, emit)
}
