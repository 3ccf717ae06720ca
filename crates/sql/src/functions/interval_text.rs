//! Intervals as texts: the units that a text leaves out, in words that Arrow reads.
//!
//! ```sql
//! select interval '1 day 04:05:06';  -- 1 day 4 hours 5 minutes 6 seconds
//! select '12'::interval;             -- 12 seconds; Arrow would read 12 months
//! select '2 days ago'::interval;     -- -2 days
//! select interval '1.5 quarters';    -- 4.5 months
//! ```

use super::Mapped;
use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ScalarUDF, Signature, Volatility, lit};
use std::sync::{Arc, LazyLock};

/// The name of the function in plans.
const NAME: &str = "interval_text";

/// The function.
pub(super) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Mapped::function(NAME, Signature::any(1, Volatility::Immutable), |_| Ok(DataType::Utf8), texts)
    });
    Arc::clone(&FUNCTION)
}

/// The text of an interval with all of its units; none: it has them already.
pub(crate) fn with_units_of(text: &Expr) -> Option<Expr> {
    match text {
        Expr::Literal(value, _) => {
            let text = value.try_as_str().flatten()?;
            let with_units = with_units(text);
            (with_units != text).then(|| lit(with_units))
        }
        Expr::ScalarFunction(call) if call.name() == NAME => None,
        other => Some(function().call(vec![other.clone()])),
    }
}

/// The texts of intervals with all of their units.
fn texts(texts: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = cast(&texts[0], &DataType::Utf8)?;
    Ok(Arc::new(texts.as_string::<i32>().iter().map(|text| text.map(with_units)).collect::<StringArray>()))
}

/// Units that Arrow does not read, in units that it reads.
const OTHER_UNITS: [(&[&str], f64, &str); 2] = [
    (&["quarter", "quarters"], 3.0, "months"),
    (&["millennium", "millenniums", "millennia"], 1000.0, "years"),
];

/// The text of an interval with all of its units: times of day in hours, minutes and seconds, a bare number
/// in seconds, quarters in months, and `ago` as signs. What is no interval stays as it is.
pub(crate) fn with_units(text: &str) -> String {
    let mut words: Vec<String> = text.split_whitespace().map(String::from).collect();
    if let [number] = words.as_slice()
        && is_number(number)
    {
        return format!("{number} seconds");
    }
    let is_ago = words.last().is_some_and(|word| word.eq_ignore_ascii_case("ago"));
    if is_ago {
        words.pop();
    }
    let words = words.into_iter().map(|word| match is_ago && word.contains(|c: char| c.is_ascii_digit()) {
        true => time_with_units(&negated(&word)).unwrap_or_else(|| negated(&word)),
        false => time_with_units(&word).unwrap_or(word),
    });
    let mut words: Vec<String> = words.collect();
    for unit in 1..words.len() {
        if let Some((number, known)) = in_other_unit(&words[unit - 1], &words[unit]) {
            (words[unit - 1], words[unit]) = (number, known.to_string());
        }
    }
    words.join(" ")
}

/// A number of a unit that Arrow does not read, as one of a unit that it reads.
fn in_other_unit(number: &str, unit: &str) -> Option<(String, &'static str)> {
    let is_this = |names: &[&str]| names.iter().any(|name| unit.eq_ignore_ascii_case(name));
    let (_, factor, known) = OTHER_UNITS.iter().find(|(names, ..)| is_this(names))?;
    let number: f64 = number.parse().ok()?;
    Some((format!("{}", number * factor), known))
}

/// Whether a word is a number.
fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) && word.parse::<f64>().is_ok()
}

/// A word that begins with a number, with the other sign.
fn negated(word: &str) -> String {
    match word.strip_prefix('-') {
        Some(positive) => positive.to_string(),
        None => format!("-{}", word.strip_prefix('+').unwrap_or(word)),
    }
}

/// `04:05:06` as `4 hours 5 minutes 6 seconds`, if the word is a time.
fn time_with_units(word: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_written_out() {
        for (text, written) in [
            ("12", "12 seconds"),
            (" -1.5 ", "-1.5 seconds"),
            ("1 day", "1 day"),
            ("-1:30", "-1 hours -30 minutes"),
            ("1 day 04:05:06.7 ago", "-1 day -04 hours -05 minutes -06.7 seconds"),
            ("-2 days ago", "2 days"),
            ("1 Quarter 2 days", "3 months 2 days"),
            ("1.5 quarters 2 millennia ago", "-4.5 months -2000 years"),
            ("quarter", "quarter"),
            ("nan", "nan"),
            ("a:b", "a:b"),
            ("", ""),
        ] {
            assert_eq!(with_units(text), written, "{text}");
        }
    }
}
