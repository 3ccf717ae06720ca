//! Errors with their place in the text: DataFusion's diagnostics carry a line and a column, the parser's
//! messages say them, and [`render`] shows the line with a caret under the place.

mod lines;
mod wording;

pub(crate) use lines::Lines;

use wording::UNKNOWN_FUNCTION;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError, Span};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use std::ops::Range;
use whimbrel_plan::names::nearest;
use whimbrel_plan::source::{redacted, redacted_around};

/// A parser's error as ours.
pub(crate) fn syntax(error: ParserError) -> DataFusionError {
    DataFusionError::SQL(Box::new(error), None)
}

/// `there is no table "clicsk"; did you mean "clicks"?`
pub(crate) fn unknown_table(name: &str, known: &[&str]) -> DataFusionError {
    let hint = match nearest(name, known).first() {
        Some(near) => format!("did you mean {near:?}?"),
        None if known.is_empty() => {
            "to read a file, write its path in quotes: from 'file.parquet'".to_string()
        }
        None => format!("there are {}", known.join(", ")),
    };
    DataFusionError::Plan(format!("there is no table {name:?}; {hint}"))
}

/// Where a column was written in other letters than those of its name, and the name, if that is what is wrong
/// and there is one such column.
pub(crate) fn respelled(error: &DataFusionError) -> Option<(Location, String)> {
    let DataFusionError::SchemaError(wrong, _) = root(error) else { return None };
    let SchemaError::FieldNotFound { field, valid_fields } = wrong.as_ref() else { return None };
    let end = span(error)?.end;
    let alike = valid_fields.iter().filter(|valid| {
        valid.name.eq_ignore_ascii_case(&field.name)
            && field.relation.as_ref().is_none_or(|table| valid.relation.as_ref() == Some(table))
    });
    let mut names: Vec<&String> = alike.map(|valid| &valid.name).collect();
    names.dedup();
    match names.as_slice() {
        [name] if **name != field.name => {
            Some((Location { line: end.line, column: end.column }, (*name).clone()))
        }
        _ => None,
    }
}

/// Where a name stands that no column has, and before which no table does.
pub(crate) fn unknown(error: &DataFusionError) -> Option<Location> {
    let DataFusionError::SchemaError(wrong, _) = root(error) else { return None };
    match wrong.as_ref() {
        SchemaError::FieldNotFound { field, .. } if field.relation.is_none() => {
            let end = span(error)?.end;
            Some(Location { line: end.line, column: end.column })
        }
        _ => None,
    }
}

/// A column of structs (`table.column`) whose fields a subquery reads from outside, if that is what was not
/// understood. The planner says it in words only.
pub(crate) fn outer_struct(error: &DataFusionError) -> Option<String> {
    let DataFusionError::NotImplemented(text) = root(error) else { return None };
    Some(text.strip_prefix("Nested identifiers are not yet supported for OuterReferenceColumn ")?.to_string())
}

/// Whether an error says that something is missing which the statement asks for: a part of the language, a
/// function. What it says of the statement nobody knows.
pub fn is_missing(error: &DataFusionError) -> bool {
    match root(error) {
        DataFusionError::NotImplemented(_) => true,
        DataFusionError::ArrowError(error, _) => matches!(error.as_ref(), ArrowError::NotYetImplemented(_)),
        DataFusionError::Plan(text) => text.starts_with(UNKNOWN_FUNCTION),
        _ => false,
    }
}

/// The error as people read it: what is wrong, then the line of the statement with a caret under the place,
/// if the place is known. Passwords and signatures in URLs are not shown.
pub fn render(error: &DataFusionError, sql: &str) -> String {
    let message = redacted(&message(error));
    let Some(place) = place(error, sql) else { return message };
    let line_start = sql[..place.start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = sql[place.start..].find('\n').map_or(sql.len(), |at| place.start + at);
    let end = place.end.clamp(place.start, line_end);
    let in_line = place.start - line_start..end - line_start;
    let [before, marked, after] = redacted_around(&sql[line_start..line_end], in_line);
    let number = sql[..line_start].matches('\n').count() + 1;
    let label = format!("line {number}: ");
    // Tabs stay tabs, so that the caret stands under its place on any terminal.
    let indent: String = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let carets = "^".repeat(marked.chars().count().max(1));
    format!("{message}\n{label}{before}{marked}{after}\n{}{indent}{carets}", " ".repeat(label.len()))
}

/// What is wrong, without the names of the engine's error variants.
fn message(error: &DataFusionError) -> String {
    use DataFusionError as E;
    match error {
        E::SQL(error, _) => parser_message(error),
        E::SchemaError(error, _) => schema_message(error),
        E::Diagnostic(_, inner) => message(inner),
        E::Context(_, inner) => message(inner),
        E::Shared(inner) => message(inner),
        E::Collection(errors) => errors.iter().map(message).collect::<Vec<_>>().join("\n"),
        other => without_backtrace(&other.message()),
    }
}

/// A message of DataFusion without a backtrace, in the words of SQL.
fn without_backtrace(text: &str) -> String {
    wording::in_sql_words(text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(text).trim_end())
}

/// The message of a syntax error.
fn parser_message(error: &ParserError) -> String {
    match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            let text = text.split(" at Line: ").next().unwrap_or(text);
            format!("syntax error: {}", lower_first(text).replace("found: EOF", "found the end"))
        }
        ParserError::RecursionLimitExceeded => {
            "the statement is nested too deeply; write its parts as views or with clauses".to_string()
        }
    }
}

/// The text with a small first letter.
fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// The message of an error about a column.
fn schema_message(error: &SchemaError) -> String {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => unknown_field(field, valid_fields),
        SchemaError::AmbiguousReference { field } => {
            format!("column {:?} is ambiguous: write the name of its table before it", field.name)
        }
        other => other.to_string(),
    }
}

/// Names the nearest column; with its table where the query has several.
fn unknown_field(field: &Column, valid: &[Column]) -> String {
    let mut names: Vec<&str> = valid.iter().map(|c| c.name.as_str()).collect();
    names.dedup();
    if let Some(table) = &field.relation {
        let table = table.to_string();
        let tables: Vec<String> =
            valid.iter().filter_map(|c| c.relation.as_ref()).map(|r| r.to_string()).collect();
        if !tables.is_empty() && !tables.contains(&table) {
            let mut known: Vec<&str> = tables.iter().map(String::as_str).collect();
            known.dedup();
            return message(&unknown_table(&table, &known));
        }
    }
    message(&whimbrel_plan::names::unknown_column(&field.name, &names))
}

/// Where in the text of the statement the error is, in bytes; `None` if it does not say.
pub fn place(error: &DataFusionError, sql: &str) -> Option<Range<usize>> {
    let lines = Lines::of(sql);
    if let Some(span) = span(error) {
        let start = lines.byte(span.start.line, span.start.column);
        return Some(start..lines.byte(span.end.line, span.end.column).max(start));
    }
    let text = root(error).to_string();
    if text.contains("found: EOF") {
        return Some(sql.len()..sql.len());
    }
    let Some((line, column)) = parser_place(&text) else { return literal(error, sql) };
    let start = lines.byte(line, column);
    Some(start..word_end(sql, start))
}

/// Where the text stands that could not be read as a value, if there is one such literal. Else it came from a
/// row.
fn literal(error: &DataFusionError, sql: &str) -> Option<Range<usize>> {
    let DataFusionError::ArrowError(error, _) = root(error) else { return None };
    let (ArrowError::CastError(text) | ArrowError::ParseError(text)) = error.as_ref() else { return None };
    let lines = Lines::of(sql);
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().ok()?;
    let mut found = tokens.into_iter().filter(|token| match &token.token {
        Token::SingleQuotedString(literal) => text.contains(&format!("'{literal}'")),
        _ => false,
    });
    let token = found.next().filter(|_| found.next().is_none())?;
    Some(lines.offset(token.span.start)..lines.offset(token.span.end))
}

/// The innermost error.
fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => root(inner),
        DataFusionError::Shared(inner) => root(inner),
        DataFusionError::Collection(errors) => errors.first().map_or(error, root),
        other => other,
    }
}

/// The place that an error carries.
fn span(error: &DataFusionError) -> Option<Span> {
    match error {
        DataFusionError::Diagnostic(diagnostic, inner) => diagnostic.span.or_else(|| span(inner)),
        DataFusionError::Context(_, inner) => span(inner),
        DataFusionError::Shared(inner) => span(inner),
        DataFusionError::Collection(errors) => errors.first().and_then(span),
        DataFusionError::SchemaError(error, _) => match error.as_ref() {
            SchemaError::FieldNotFound { field, .. } => field.spans.first(),
            SchemaError::AmbiguousReference { field } => field.spans.first(),
            _ => None,
        },
        _ => None,
    }
}

/// `… at Line: 1, Column: 8`
fn parser_place(text: &str) -> Option<(u64, u64)> {
    let (_, rest) = text.rsplit_once("Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((line.parse().ok()?, rest[..digits].parse().ok()?))
}

/// The end of the word at a place.
fn word_end(sql: &str, start: usize) -> usize {
    let rest = &sql[start..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    start + end
}
