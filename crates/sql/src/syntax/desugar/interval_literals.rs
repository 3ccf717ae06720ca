//! `interval '1 day 04:05:06'`: hours, minutes and seconds with their units.

use crate::syntax::ast::string_literal;
use datafusion::sql::sqlparser::ast::{Expr, Value};

/// Writes `04:05:06` as `4 hours 5 minutes 6 seconds`.
pub(super) fn desugar(value: &mut Expr) {
    let Some(interval) = string_literal(value).filter(|interval| interval.contains(':')) else { return };
    let words: Vec<String> =
        interval.split_whitespace().map(|word| with_units(word).unwrap_or(word.to_string())).collect();
    *value = Expr::Value(Value::SingleQuotedString(words.join(" ")).into());
}

/// A time with units, if the word is one.
fn with_units(word: &str) -> Option<String> {
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
    let with_units = parts.iter().zip(units).map(|(part, unit)| format!("{sign}{part} {unit}"));
    Some(with_units.collect::<Vec<_>>().join(" "))
}
