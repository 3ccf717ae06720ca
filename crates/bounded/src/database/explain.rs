//! `explain select …` shows a plan and its bound. `explain slo '99% under 50ms' select …` also predicts
//! whether the objective is met.

use super::engine::Engine;
use crate::error::{Error, Result};
use crate::execute::Page;
use crate::predict::{Outline, Prediction, Slo};
use crate::store::Operations;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use std::sync::Arc;

/// An `explain` statement.
#[derive(Debug)]
pub(crate) struct Explain {
    slo: Option<Slo>,
    /// The statement, with blanks before it, so that errors show its position in the text.
    statement: String,
}

impl Explain {
    /// The `explain` statement that a text is, if it is one.
    ///
    /// # Errors
    /// `Invalid` if the objective is none, or no statement follows.
    pub fn of(sql: &str) -> Result<Option<Explain>> {
        // Text that is not SQL is refused by the parser later.
        let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location() else {
            return Ok(None);
        };
        let mut tokens =
            tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        if !tokens.next().is_some_and(|token| is(token, "explain")) {
            return Ok(None);
        }
        let (mut slo, mut first) = (None, tokens.next());
        if first.is_some_and(|token| is(token, "slo")) {
            slo = match tokens.next().map(|token| &token.token) {
                Some(Token::SingleQuotedString(text)) => Some(text.parse()?),
                _ => {
                    return Err(Error::invalid(
                        "explain slo takes a promise: explain slo '99% under 50ms' select …",
                    ));
                }
            };
            first = tokens.next();
        }
        let first = first.ok_or_else(|| Error::invalid("explain takes a statement: explain select …"))?;
        Ok(Some(Explain { slo, statement: blank_before(sql, first.span.start) }))
    }
}

/// Whether a token is this keyword.
fn is(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// The text with everything before a position replaced by blanks.
fn blank_before(sql: &str, from: Location) -> String {
    let (mut line, mut column) = (1, 1);
    let blank = |letter: char| {
        let before = (line, column) < (from.line, from.column);
        (line, column) = if letter == '\n' { (line + 1, 1) } else { (line, column + 1) };
        if before && letter != '\n' { ' ' } else { letter }
    };
    sql.chars().map(blank).collect()
}

impl Engine {
    /// The plan of a statement, and its prediction, one line a row.
    pub(crate) fn explain(&self, explain: &Explain) -> Result<Page> {
        let compiled = self.compile(&explain.statement)?;
        let mut text = compiled.to_string();
        if let Some(slo) = explain.slo {
            let model = self.model()?.ok_or_else(|| {
                Error::invalid(
                    "there is no model of this store's latencies yet: measure it, with `whimbrel bounded measure`, \
                     or db.keep_model(&db.measure(&Options::default())?)",
                )
            })?;
            let outline = Outline::of(&compiled.plan)?;
            let prediction = Prediction::of(&outline, self.options.executor, &model, slo)?;
            text = format!("{text}\n{}\n{prediction}", outline.describe());
        }
        let lines: ArrayRef = Arc::new(StringArray::from(text.lines().collect::<Vec<_>>()));
        Ok(Page {
            batch: RecordBatch::try_from_iter([("plan", lines)])?,
            cursor: None,
            spent: Operations::default(),
        })
    }
}
