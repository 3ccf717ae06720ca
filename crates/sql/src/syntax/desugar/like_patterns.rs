//! Patterns: `like` with an `escape` character, and `similar to`.
//!
//! ```sql
//! select a like '10$%' escape '$';  -- a like '10\%'
//! select a similar to '(x|y)%';     -- a ~ '^(?s:(x|y).*)$'
//! ```

use crate::syntax::ast::string_literal;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};
use std::ops::ControlFlow;

/// The escape character of the planner.
const ESCAPE: char = '\\';

/// Rewrites `like … escape` with backslashes, and `similar to` as a regular expression. It breaks off with
/// why it cannot.
pub fn like_pattern(expr: &mut Expr) -> ControlFlow<String> {
    match expr {
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            escape_with_backslashes(pattern, escape_char)
        }
        Expr::SimilarTo { .. } => similar_to(expr),
        _ => ControlFlow::Continue(()),
    }
}

/// Rewrites `like … escape` with the escape character of the planner.
fn escape_with_backslashes(
    pattern: &mut Expr,
    escape_char: &mut Option<ValueWithSpan>,
) -> ControlFlow<String> {
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
    let Some(text) = string_literal(pattern) else {
        return ControlFlow::Break("a pattern with escape has to be a literal".to_string());
    };
    let rewritten = with_backslashes(text, escape);
    *pattern = literal(rewritten);
    ControlFlow::Continue(())
}

/// A pattern with backslashes in place of its escape character.
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

/// `similar to` matches the whole text, with the wildcards of `like`.
fn similar_to(expr: &mut Expr) -> ControlFlow<String> {
    let Expr::SimilarTo { negated, expr: left, pattern, escape_char } = &*expr else {
        return ControlFlow::Continue(());
    };
    let (Some(pattern), None) = (string_literal(pattern), escape_char) else {
        return ControlFlow::Break("similar to takes a literal, without escape".to_string());
    };
    let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
    let right = Box::new(literal(regular_expression(pattern)));
    *expr = Expr::Nested(Box::new(Expr::BinaryOp { left: left.clone(), op, right }));
    ControlFlow::Continue(())
}

/// The same pattern as a regular expression. `| * + ? {} () []` are the same in both.
fn regular_expression(pattern: &str) -> String {
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

/// A string literal.
fn literal(text: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(text).into())
}
