//! Errors with their place in the text: DataFusion's diagnostics carry a line and a column, the parser's
//! messages say them, and [`render`] shows the line with a caret under the place.

use crate::split::Lines;
use datafusion::common::{Column, DataFusionError, SchemaError, Span};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Location;
use std::ops::Range;
use whimbrel_plan::names::nearest;

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

/// A column of structs (`table.column`) whose fields a subquery reads from outside, if that is what was not understood.
/// The planner says it in words only.
pub(crate) fn outer_struct(error: &DataFusionError) -> Option<String> {
    let DataFusionError::NotImplemented(text) = root(error) else { return None };
    Some(text.strip_prefix("Nested identifiers are not yet supported for OuterReferenceColumn ")?.to_string())
}

/// The error as people read it: what is wrong, then the line of the statement with a caret under the place,
/// if the place is known.
pub fn render(error: &DataFusionError, sql: &str) -> String {
    let message = message(error);
    let Some(place) = place(error, sql) else { return message };
    let line_start = sql[..place.start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = sql[place.start..].find('\n').map_or(sql.len(), |at| place.start + at);
    let line = &sql[line_start..line_end];
    let number = sql[..line_start].matches('\n').count() + 1;
    let label = format!("line {number}: ");
    let before = sql[line_start..place.start].chars();
    // Tabs stay tabs, so that the caret stands under its place on any terminal.
    let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let marked = sql[place.start..place.end.clamp(place.start, line_end)].chars().count().max(1);
    format!("{message}\n{label}{line}\n{}{indent}{}", " ".repeat(label.len()), "^".repeat(marked))
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
        other => plain(&other.message()),
    }
}

fn plain(text: &str) -> String {
    let text = text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(text).trim_end();
    arguments(text).or_else(|| unknown_syntax(text)).unwrap_or_else(|| text.to_string())
}

/// What a function takes and what it got, if a text says that they do not fit.
fn arguments(text: &str) -> Option<String> {
    let (before, after) = text.split_once("' failed to match any signature")?;
    let function = before.rsplit_once("Function '")?.1;
    let takes = after.split("' requires ").skip(1).filter_map(|t| t.split(',').next());
    let mut known: Vec<&str> = Vec::new();
    takes.map(in_words).for_each(|kind| {
        if !known.contains(&kind) {
            known.push(kind)
        }
    });
    let takes = known;
    let got = after.split("(DataType: ").nth(1).and_then(|t| t.split(").").next());
    Some(match (takes.as_slice(), got) {
        ([], _) | (_, None) => format!("{function} does not take these arguments"),
        (takes, Some(got)) => {
            format!("{function} takes {}, and not {}; cast the argument", takes.join(" or "), in_words(got))
        }
    })
}

/// A type of DataFusion's, or what it calls types alike, as people say it.
fn in_words(kind: &str) -> &str {
    match kind {
        "Utf8" | "LargeUtf8" | "Utf8View" | "String" => "a text",
        "Boolean" => "a condition",
        "Decimal" | "Float16" | "Float32" | "Float64" | "Integer" | "Numeric" => "a number",
        "Int8" | "Int16" | "Int32" | "Int64" | "UInt8" | "UInt16" | "UInt32" | "UInt64" => "a number",
        "Date" | "Date32" | "Date64" => "a date",
        "Timestamp" => "a timestamp",
        "Interval" | "Duration" => "an interval",
        other => other,
    }
}

/// What a text says before it shows the parser's tree.
fn unknown_syntax(text: &str) -> Option<String> {
    let tree = text.contains("Span(Location(").then(|| text.find([' ', '(']))??;
    let shown = text.find(" { ").into_iter().chain(text.find('(')).min().unwrap_or(tree);
    let said = text[..shown].trim_end_matches(|c: char| c.is_alphanumeric()).trim_end_matches([' ', ':']);
    let node = text[..shown].rsplit(' ').next().unwrap_or_default();
    let said = match said.starts_with("Unsupported ast node") {
        true => "this part of a query is not there",
        false => said,
    };
    Some(format!("{said}: {}", node.to_lowercase()))
}

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

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

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
    let (line, column) = said(&text)?;
    let start = lines.byte(line, column);
    Some(start..word_end(sql, start))
}

fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => root(inner),
        DataFusionError::Shared(inner) => root(inner),
        DataFusionError::Collection(errors) => errors.first().map_or(error, root),
        other => other,
    }
}

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
fn said(text: &str) -> Option<(u64, u64)> {
    let (_, rest) = text.rsplit_once("Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((line.parse().ok()?, rest[..digits].parse().ok()?))
}

fn word_end(sql: &str, start: usize) -> usize {
    let rest = &sql[start..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    start + end
}
