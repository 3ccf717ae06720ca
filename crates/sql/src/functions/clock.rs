//! The time of day in a text that says a date before it, and how far its clock is ahead behind it:
//! `2020-01-01 10:00:00+02` is 10:00:00, as in DuckDB and PostgreSQL. A date alone is its midnight.

use super::Mapped;
use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cast_utils::Parser;
use datafusion::arrow::datatypes::{DataType, Date32Type, Time64NanosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, ScalarUDF, Signature, Volatility, lit};
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

/// The name of the function in plans.
const NAME: &str = "time_of_text";

/// The function.
pub(super) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Mapped::function(NAME, Signature::any(1, Volatility::Immutable), |_| Ok(DataType::Utf8), times)
    });
    Arc::clone(&FUNCTION)
}

/// The text of the time of day in a text; none: it is that already.
pub(crate) fn time_of_text(text: &Expr) -> Option<Expr> {
    match text {
        Expr::Literal(value, _) => {
            let text = value.try_as_str().flatten()?;
            let time = time(text);
            (time != text).then(|| lit(time.into_owned()))
        }
        Expr::ScalarFunction(call) if call.name() == NAME => None,
        other => Some(function().call(vec![other.clone()])),
    }
}

/// The times of these strings.
fn times(texts: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = cast(&texts[0], &DataType::Utf8)?;
    Ok(Arc::new(texts.as_string::<i32>().iter().map(|text| text.map(time)).collect::<StringArray>()))
}

/// A text that says no time stays as it is: it is refused where it becomes one. Arrow reads a bare number as
/// nanoseconds, but not with a space behind it.
fn time(text: &str) -> Cow<'_, str> {
    let is_date = |text: &str| text.contains('-') && Date32Type::parse(text).is_some();
    let is_time = |text: &&str| text.contains(':') && Time64NanosecondType::parse(text).is_some();
    let trimmed = text.trim();
    if trimmed.parse::<i64>().is_ok() {
        return Cow::Owned(format!("{trimmed} "));
    }
    if !trimmed.contains([' ', 'T', 't']) && is_date(trimmed) {
        return Cow::Borrowed("00:00:00");
    }
    let behind_date = match trimmed.split_once([' ', 'T', 't']) {
        Some((date, time)) if is_date(date) => time.trim_start(),
        _ => trimmed,
    };
    Cow::Borrowed(Some(without_offset(behind_date)).filter(is_time).unwrap_or(text))
}

/// `10:00:00` of `10:00:00+02:00` and of `10:00:00Z`.
fn without_offset(time: &str) -> &str {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return time.trim_end();
    }
    let is_offset = |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && text.len() <= 8;
    let of_offset = |c: char| c.is_ascii_digit() || c == ':';
    match time.rsplit_once(['+', '-']) {
        Some((time, offset)) if is_offset(offset) && offset.chars().all(of_offset) => time.trim_end(),
        _ => time,
    }
}
