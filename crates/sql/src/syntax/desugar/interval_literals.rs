//! `interval '1 day 04:05:06'`: a length with a time of day in it, in words.

use crate::syntax::ast::string_literal;
use datafusion::sql::sqlparser::ast::{Expr, Value};

/// Says `04:05:06` as `4 hours 5 minutes 6 seconds`.
pub(super) fn desugar(value: &mut Expr) {
    let Some(length) = string_literal(value).filter(|length| length.contains(':')) else { return };
    let words: Vec<String> =
        length.split_whitespace().map(|word| said(word).unwrap_or(word.to_string())).collect();
    *value = Expr::Value(Value::SingleQuotedString(words.join(" ")).into());
}

fn said(word: &str) -> Option<String> {
    let (sign, time) = match word.strip_prefix('-') {
        Some(time) => ("-", time),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let parts: Vec<&str> = time.split(':').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if !(2..=3).contains(&parts.len()) || !parts.iter().all(number) {
        return None;
    }
    let units = ["hours", "minutes", "seconds"];
    let said = parts.iter().zip(units).map(|(part, unit)| format!("{sign}{part} {unit}"));
    Some(said.collect::<Vec<_>>().join(" "))
}
