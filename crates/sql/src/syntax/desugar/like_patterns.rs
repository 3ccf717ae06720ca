//! Patterns: `like` with an escape character of one's own, and `similar to`.

use crate::syntax::ast::string_literal;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};
use std::ops::ControlFlow;

/// What the planner takes for the escape character.
const ESCAPE: char = '\\';

/// Writes a pattern as the planner reads it: `like` with an escape character of its own, and `similar to`. It breaks off with
/// what cannot be written so.
pub fn like_pattern(expr: &mut Expr) -> ControlFlow<String> {
    match expr {
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            escaped(pattern, escape_char)
        }
        Expr::SimilarTo { .. } => similar(expr),
        _ => ControlFlow::Continue(()),
    }
}

fn escaped(pattern: &mut Expr, escape_char: &mut Option<ValueWithSpan>) -> ControlFlow<String> {
    let Some(escape) = escape_char.take() else { return ControlFlow::Continue(()) };
    let Value::SingleQuotedString(escape) = escape.value else {
        return ControlFlow::Break("escape takes a character in quotes".to_string());
    };
    let mut chars = escape.chars();
    let escape = match (chars.next(), chars.next()) {
        (Some(ESCAPE), None) => return ControlFlow::Continue(()),
        (escape, None) => escape,
        _ => return ControlFlow::Break(format!("escape takes one character, not {escape:?}")),
    };
    let Some(given) = string_literal(pattern) else {
        return ControlFlow::Break("a pattern with escape has to be a literal".to_string());
    };
    let rewritten = with_backslashes(given, escape);
    *pattern = literal(rewritten);
    ControlFlow::Continue(())
}

fn with_backslashes(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            out.push(ESCAPE);
            out.extend(chars.next());
        } else {
            if c == ESCAPE {
                out.push(ESCAPE);
            }
            out.push(c);
        }
    }
    out
}

/// `similar to` is about the whole text, and `%` and `_` mean in it what they mean in `like`.
fn similar(expr: &mut Expr) -> ControlFlow<String> {
    let Expr::SimilarTo { negated, expr: left, pattern, escape_char } = &*expr else {
        return ControlFlow::Continue(());
    };
    let (Some(pattern), None) = (string_literal(pattern), escape_char) else {
        return ControlFlow::Break("similar to takes a literal, without escape".to_string());
    };
    let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    let right = Box::new(literal(regular(pattern)));
    *expr = Expr::Nested(Box::new(Expr::BinaryOp { left: left.clone(), op, right }));
    ControlFlow::Continue(())
}

/// The regular expression that says the same. `| * + ? {} () []` are the same in both.
fn regular(pattern: &str) -> String {
    let mut out = String::from("^(?s:");
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => out += ".*",
            '_' => out.push('.'),
            '.' | '^' | '$' => out.extend([ESCAPE, c]),
            ESCAPE => {
                out.push(ESCAPE);
                out.extend(chars.next());
            }
            other => out.push(other),
        }
    }
    out + ")$"
}

fn literal(text: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(text).into())
}
