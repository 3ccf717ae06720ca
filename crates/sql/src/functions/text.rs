//! Values as texts, where DataFusion writes them otherwise than DuckDB and PostgreSQL: `2020-01-01 10:00:00`,
//! `1 day 01:30:00`, `[1, NULL]`, `{a=1}`, `\xAB`.

use super::{Mapped, blobs};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::{Arc, LazyLock};

/// How DataFusion writes other values.
const FORMAT: FormatOptions<'static> = FormatOptions::new()
    .with_null("NULL")
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));

/// The text of a value, whatever its type.
pub(crate) fn text() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let any = Signature::any(1, Volatility::Immutable);
        Mapped::function(
            "text",
            any,
            |_| Ok(DataType::Utf8),
            |values| {
                let values = &values[0];
                let written = |at: usize| match values.is_null(at) {
                    true => Ok(None),
                    false => value(values, at).map(Some),
                };
                let texts = (0..values.len()).map(written).collect::<Result<StringArray>>()?;
                Ok(Arc::new(texts) as ArrayRef)
            },
        )
    });
    Arc::clone(&FUNCTION)
}

/// Whether values of a type have a text of ours.
pub(crate) fn has_own(kind: &DataType) -> bool {
    matches!(kind, DataType::Timestamp(..) | DataType::Interval(IntervalUnit::MonthDayNano))
        || matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
        || matches!(
            kind,
            DataType::List(_) | DataType::LargeList(_) | DataType::Struct(_) | DataType::Map(..)
        )
}

/// The text of one value.
///
/// # Errors
/// `ArrowError` if the value cannot be written.
pub(super) fn value(values: &ArrayRef, at: usize) -> Result<String> {
    if values.is_null(at) {
        return Ok("NULL".to_string());
    }
    match values.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            Ok(length(values.as_primitive::<IntervalMonthDayNanoType>().value(at)))
        }
        DataType::Binary => Ok(blobs::written(values.as_binary::<i32>().value(at))),
        DataType::LargeBinary => Ok(blobs::written(values.as_binary::<i64>().value(at))),
        DataType::BinaryView => Ok(blobs::written(values.as_binary_view().value(at))),
        DataType::List(_) => list(&values.as_list::<i32>().value(at)),
        DataType::LargeList(_) => list(&values.as_list::<i64>().value(at)),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(values.as_struct().columns());
            let parts =
                columns.map(|(field, column)| Ok(format!("'{}': {}", field.name(), value(column, at)?)));
            Ok(format!("{{{}}}", parts.collect::<Result<Vec<_>>>()?.join(", ")))
        }
        DataType::Map(..) => {
            let entries = values.as_map().value(at);
            let (keys, values) = (entries.column(0), entries.column(1));
            let entry = |at| Ok(format!("{}={}", value(keys, at)?, value(values, at)?));
            Ok(format!("{{{}}}", (0..entries.len()).map(entry).collect::<Result<Vec<_>>>()?.join(", ")))
        }
        DataType::Timestamp(_, zone) => {
            let text = ArrayFormatter::try_new(values, &FORMAT)?.value(at).to_string();
            let (text, offset) = match zone {
                Some(_) => text.split_at(text.len().saturating_sub("+00:00".len())),
                None => (text.as_str(), ""),
            };
            let text = if text.contains('.') { text.trim_end_matches('0') } else { text };
            Ok(format!("{text}{}", offset.strip_suffix(":00").unwrap_or(offset)))
        }
        _ => Ok(ArrayFormatter::try_new(values, &FORMAT)?.value(at).to_string()),
    }
}

/// The values of a list in brackets.
fn list(values: &ArrayRef) -> Result<String> {
    let texts = (0..values.len()).map(|at| value(values, at)).collect::<Result<Vec<_>>>()?;
    Ok(format!("[{}]", texts.join(", ")))
}

/// Years, months and days in words, and what is left as a time of day.
fn length(length: IntervalMonthDayNano) -> String {
    let counted = |n: i32, unit: &str| match n {
        0 => None,
        1 | -1 => Some(format!("{n} {unit}")),
        _ => Some(format!("{n} {unit}s")),
    };
    let mut parts: Vec<String> = [
        counted(length.months / 12, "year"),
        counted(length.months % 12, "month"),
        counted(length.days, "day"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if length.nanoseconds != 0 || parts.is_empty() {
        let sign = if length.nanoseconds < 0 { "-" } else { "" };
        let micros = length.nanoseconds.unsigned_abs() / 1_000;
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        let mut time = format!("{sign}{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
        if micros > 0 {
            time += format!(".{micros:06}").trim_end_matches('0');
        }
        parts.push(time);
    }
    parts.join(" ")
}
