//! `emit changes` and `emit final`, at the end of a statement: when its rows are output.

use super::tokens::is_word;
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// When the rows of a query are handed out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Emit {
    /// When nothing can change them any more.
    #[default]
    Final,
    /// At once, and again when they change.
    Changes {
        /// How late rows may come, as a length of time. `None`: as late as they like.
        within: Option<String>,
    },
}

impl Emit {
    /// `emit changes`, however late rows come.
    pub const CHANGES: Emit = Emit::Changes { within: None };

    /// Whether rows that are too late are dropped, and windows that are over forgotten.
    pub fn forgets(&self) -> bool {
        matches!(self, Emit::Changes { within: Some(_) })
    }
}

/// Takes `emit …` off the end of a statement.
///
/// # Errors
/// `Plan` if `within` is not followed by a length of time.
pub(crate) fn take_emit(mut tokens: Vec<TokenWithSpan>) -> Result<(Vec<TokenWithSpan>, Emit)> {
    let open = |t: &TokenWithSpan| !matches!(t.token, Token::EOF | Token::SemiColon);
    let end = tokens.iter().rposition(open).map_or(0, |last| last + 1);
    let word = |t: &TokenWithSpan, word: &str| is_word(&t.token, word);
    // A statement does not begin with it, and `select emit from final` ends with another word before it.
    let (begin, emit) = match &tokens[..end] {
        [_, .., emit, when] if word(emit, "emit") && word(when, "changes") => (end - 2, Emit::CHANGES),
        [_, .., emit, when] if word(emit, "emit") && word(when, "final") => (end - 2, Emit::Final),
        all => match within_clause(all) {
            Some(begin) => (begin, Emit::Changes { within: Some(length(&all[begin + 3..])?) }),
            None => return Ok((tokens, Emit::Final)),
        },
    };
    tokens.drain(begin..end);
    Ok((tokens, emit))
}

/// Where `emit changes within` begins, with at most three tokens behind it.
fn within_clause(tokens: &[TokenWithSpan]) -> Option<usize> {
    let word = |at: usize, word: &str| is_word(&tokens[at].token, word);
    let last = tokens.len().checked_sub(3)?;
    let clause = |at: &usize| word(*at, "emit") && word(at + 1, "changes") && word(at + 2, "within");
    (last.saturating_sub(3).max(1)..=last).find(clause)
}

/// The length of time that tokens are: `interval '10' minute`, `'10 minutes'`, or on a logical clock `10`.
fn length(tokens: &[TokenWithSpan]) -> Result<String> {
    let tokens: Vec<&Token> = tokens.iter().map(|t| &t.token).collect();
    let text = |token: &Token| match token {
        Token::SingleQuotedString(text) if !text.trim().is_empty() => Some(text.clone()),
        Token::Number(number, _) if number.parse::<i64>().is_ok() => Some(number.clone()),
        _ => None,
    };
    let found = match tokens.as_slice() {
        [length] => text(length),
        [interval, length] if is_word(interval, "interval") => text(length),
        [interval, length, Token::Word(unit)] if is_word(interval, "interval") => {
            text(length).map(|length| format!("{length} {}", unit.value))
        }
        _ => None,
    };
    match found {
        Some(length) => Ok(length),
        None => plan_err!(
            "emit changes within takes a length of time: within interval '10' minute, or on a logical clock within 10"
        ),
    }
}
