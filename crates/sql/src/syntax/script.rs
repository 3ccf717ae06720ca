//! A script cut into statements, at the semicolons that are neither in a string nor in a comment.

use crate::error::{Lines, syntax};
use datafusion::common::Result;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use std::ops::Range;

/// A statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement<'a> {
    /// Its text, without the semicolon.
    pub text: &'a str,
    /// Where it stands in the script, in bytes.
    pub span: Range<usize>,
}

/// Splits a script.
///
/// # Errors
/// `SQL` if a string or a comment does not end.
pub(crate) fn split(script: &str) -> Result<Vec<Statement<'_>>> {
    let tokens =
        Tokenizer::new(&GenericDialect {}, script).tokenize_with_location().map_err(|e| syntax(e.into()))?;
    let lines = Lines::of(script);
    let mut statements = Vec::new();
    // To find a place costs a walk along its line, so only those of statements are looked for, and not of
    // every token.
    let mut words: Option<(&TokenWithSpan, &TokenWithSpan)> = None;
    let bytes = |(first, last): (&TokenWithSpan, &TokenWithSpan)| {
        lines.offset(first.span.start)..lines.offset(last.span.end)
    };
    for token in &tokens {
        match token.token {
            Token::SemiColon => statements.extend(words.take().map(bytes)),
            Token::Whitespace(_) | Token::EOF => {}
            _ => words = Some((words.map_or(token, |(first, _)| first), token)),
        }
    }
    statements.extend(words.map(bytes));
    Ok(statements.into_iter().map(|span| Statement { text: &script[span.clone()], span }).collect())
}
