//! A script cut into statements, at the semicolons that are neither in a string nor in a comment.

use crate::error::syntax;
use datafusion::common::Result;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::ops::Range;

/// A statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement<'a> {
    /// Its text, without the semicolon.
    pub text: &'a str,
    /// Where it stands in the script, in bytes.
    pub span: Range<usize>,
}

pub(crate) fn split(script: &str) -> Result<Vec<Statement<'_>>> {
    let tokens =
        Tokenizer::new(&GenericDialect {}, script).tokenize_with_location().map_err(|e| syntax(e.into()))?;
    let lines = Lines::of(script);
    let mut statements = Vec::new();
    // To find a place costs a walk along its line, so only those of statements are looked for, and not of every token.
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

/// Where the lines of a text begin: from the parser's line and column to bytes.
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub fn of(text: &'a str) -> Lines<'a> {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// The byte at which a place begins; the end of the text for a place behind it.
    pub fn offset(&self, at: Location) -> usize {
        self.byte(at.line, at.column)
    }

    /// The same for a line and a column, both counted from one, columns in characters.
    pub fn byte(&self, line: u64, column: u64) -> usize {
        let Some(start) = self.starts.get((line.max(1) - 1) as usize) else { return self.text.len() };
        let rest = &self.text[*start..];
        let within = rest.char_indices().nth((column.max(1) - 1) as usize).map_or(rest.len(), |(at, _)| at);
        start + within
    }
}
