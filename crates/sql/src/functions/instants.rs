//! Instants from texts, and parts of instants and of lengths of time: `strptime`, `century`,
//! `date_part('epoch', interval …)`.

use super::Mapped;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::{CastOptions, DatePart, cast, cast_with_options, date_part};
use datafusion::arrow::datatypes::{
    DataType, Int32Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::{Arc, LazyLock};

/// Nanoseconds.
const DAY: i64 = 86_400_000_000_000;

/// The name of the function of parts that are counted from a year.
pub(crate) const YEARS: &str = "part_of_year";

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let two = |name, returns, compute| {
        Mapped::function(name, Signature::any(2, Volatility::Immutable), returns, compute)
    };
    vec![
        Mapped::exact(
            "strptime",
            vec![DataType::Utf8, DataType::Utf8],
            |_| Ok(DataType::Timestamp(TimeUnit::Microsecond, None)),
            |args| read(args, false),
        ),
        Mapped::exact(
            "try_strptime",
            vec![DataType::Utf8, DataType::Utf8],
            |_| Ok(DataType::Timestamp(TimeUnit::Microsecond, None)),
            |args| read(args, true),
        ),
        two(YEARS, |_| Ok(DataType::Int64), of_years),
        since_1970("epoch_ns", |args| ticks(args, TimeUnit::Nanosecond, 1)),
        since_1970("epoch_us", |args| ticks(args, TimeUnit::Microsecond, 1_000)),
        since_1970("epoch_ms", |args| ticks(args, TimeUnit::Millisecond, 1_000_000)),
    ]
}

/// A function that counts ticks since 1970.
fn since_1970(name: &'static str, ticks: fn(&[ArrayRef]) -> Result<ArrayRef>) -> Arc<ScalarUDF> {
    Mapped::function(name, Signature::any(1, Volatility::Immutable), |_| Ok(DataType::Int64), ticks)
}

/// How many ticks of so many nanoseconds an instant is after 1970, or a length is long.
fn ticks(args: &[ArrayRef], unit: TimeUnit, nanos: i64) -> Result<ArrayRef> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    if !matches!(args[0].data_type(), DataType::Interval(_)) {
        let instants = cast_with_options(&args[0], &DataType::Timestamp(unit, None), &strict)?;
        return Ok(cast(&instants, &DataType::Int64)?);
    }
    let of = |length: IntervalMonthDayNano| {
        let days = i64::from(length.months) * 30 + i64::from(length.days);
        let ticks =
            days.checked_mul(DAY / nanos).and_then(|days| days.checked_add(length.nanoseconds / nanos));
        ticks.ok_or_else(|| exec_datafusion_err!("a length of time is too long to be counted in ticks"))
    };
    let ticks = lengths(&args[0])?.into_iter().map(|length| length.map(of).transpose());
    Ok(Arc::new(ticks.collect::<Result<Int64Array>>()?))
}

/// The instants that texts are, by formats.
fn read(args: &[ArrayRef], or_null: bool) -> Result<ArrayRef> {
    let (texts, formats) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
    let instants = texts.iter().zip(formats).map(|(text, format)| match text.zip(format) {
        None => Ok(None),
        Some((text, format)) => match instant(text, format) {
            None if !or_null => exec_err!("strptime: {text:?} is not written as {format:?} says"),
            found => Ok(found),
        },
    });
    Ok(Arc::new(instants.collect::<Result<TimestampMicrosecondArray>>()?))
}

/// Microseconds since 1970.
fn instant(text: &str, format: &str) -> Option<i64> {
    let format = format_of_chrono(format, "%.f");
    if let Ok(instant) = DateTime::parse_from_str(text, &format) {
        return Some(instant.timestamp_micros());
    }
    let time = NaiveDateTime::parse_from_str(text, &format)
        // What has no minutes is of the full hour, what has no day of the first one. A date would pass over
        // the hour.
        .or_else(|_| NaiveDateTime::parse_from_str(&format!("{text}|0"), &format!("{format}|%M")))
        .or_else(|_| NaiveDate::parse_from_str(text, &format).map(|date| date.and_time(NaiveTime::MIN)))
        .or_else(|_| {
            let first = NaiveDate::parse_from_str(&format!("{text}|1"), &format!("{format}|%d"));
            first.map(|date| date.and_time(NaiveTime::MIN))
        })
        .or_else(|_| {
            let first = NaiveDate::parse_from_str(&format!("{text}|1|1"), &format!("{format}|%m|%d"));
            first.map(|date| date.and_time(NaiveTime::MIN))
        });
    time.ok().map(|time| time.and_utc().timestamp_micros())
}

/// A format as the calendar's library takes it: `%f` are microseconds, `%g` milliseconds, `%n` nanoseconds;
/// `.%f` is `point`.
pub(crate) fn format_of_chrono(format: &str, point: &str) -> String {
    let mut pattern = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        let code = from.chars().nth(1);
        let (own, after_point) = match code {
            Some('f') => (Some("%6f"), before.ends_with('.')),
            Some('g') => (Some("%3f"), false),
            Some('n') => (Some("%9f"), false),
            _ => (None, false),
        };
        let length = 1 + code.map_or(0, char::len_utf8);
        match own {
            Some(_) if after_point && !point.is_empty() => {
                pattern.push_str(&before[..before.len() - 1]);
                pattern.push_str(point);
            }
            Some(own) => {
                pattern.push_str(before);
                pattern.push_str(own);
            }
            None => {
                pattern.push_str(before);
                pattern.push_str(&from[..length]);
            }
        }
        rest = &from[length..];
    }
    pattern + rest
}

/// Centuries and their like, of instants and of lengths of time.
fn of_years(args: &[ArrayRef]) -> Result<ArrayRef> {
    let units = args[0].as_string::<i32>();
    let Some(unit) = (!units.is_empty()).then(|| units.value(0)) else {
        return Ok(Arc::new(Int64Array::from(Vec::<i64>::new())));
    };
    let is_length = matches!(args[1].data_type(), DataType::Interval(_));
    let years: Vec<Option<i64>> = match args[1].data_type() {
        DataType::Null => vec![None; args[1].len()],
        DataType::Interval(_) => {
            lengths(&args[1])?.into_iter().map(|l| Some(i64::from(l?.months) / 12)).collect()
        }
        _ => {
            let instants = match args[1].data_type() {
                kind if kind.is_string() => {
                    cast(&args[1], &DataType::Timestamp(TimeUnit::Microsecond, None))?
                }
                _ => Arc::clone(&args[1]),
            };
            let years = date_part(&instants, DatePart::Year)?;
            years.as_primitive::<Int32Type>().iter().map(|year| year.map(i64::from)).collect()
        }
    };
    // The first year of an era of so many is 1, not 0; lengths have no first year.
    let era = |year: i64, size: i64| match year {
        year if is_length => year / size,
        year if year > 0 => (year - 1) / size + 1,
        year => year / size - 1,
    };
    let part = |year: i64| match unit {
        "century" | "centuries" => Ok(era(year, 100)),
        "millennium" | "millenium" | "millennia" => Ok(era(year, 1000)),
        "decade" | "decades" => Ok(year / 10),
        other => exec_err!("{other} is not counted in years"),
    };
    let parts = years.into_iter().map(|year| year.map(part).transpose());
    Ok(Arc::new(parts.collect::<Result<Int64Array>>()?))
}

/// The intervals of a column.
fn lengths(values: &ArrayRef) -> Result<Vec<Option<IntervalMonthDayNano>>> {
    let values = cast(values, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    Ok(values.as_primitive::<IntervalMonthDayNanoType>().iter().collect())
}

/// A part of a length of time, as `date_part` would give it of an instant: years and months of months, days
/// of days, the rest of the time.
pub(crate) fn part_of_length() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let two = Signature::any(2, Volatility::Immutable);
        Mapped::function(
            "part_of_length",
            two,
            |_| Ok(DataType::Float64),
            |args| {
                let (parts, lengths) = (args[0].as_string::<i32>(), lengths(&args[1])?);
                let of = |(part, length): (Option<&str>, Option<IntervalMonthDayNano>)| {
                    part.zip(length).map(|(part, length)| part_of(part, length)).transpose()
                };
                Ok(Arc::new(parts.iter().zip(lengths).map(of).collect::<Result<Float64Array>>()?))
            },
        )
    });
    Arc::clone(&FUNCTION)
}

/// A year is 365.25 days long, and a month 30, where a length is a number of seconds.
fn part_of(part: &str, length: IntervalMonthDayNano) -> Result<f64> {
    /// A second in nanoseconds.
    const SECOND: i64 = 1_000_000_000;
    let (months, minute) = (i64::from(length.months), length.nanoseconds % (60 * SECOND));
    let whole = |number: i64| Ok(number as f64);
    match part.to_ascii_lowercase().trim_end_matches('s') {
        "epoch" => {
            let days = (months / 12) as f64 * 365.25 + (months % 12 * 30 + i64::from(length.days)) as f64;
            Ok(days * 86_400.0 + (length.nanoseconds / 1_000) as f64 / 1e6)
        }
        "year" => whole(months / 12),
        "quarter" => whole(months % 12 / 3 + 1),
        "month" => whole(months % 12),
        "day" => whole(i64::from(length.days)),
        "hour" => whole(length.nanoseconds / (3_600 * SECOND)),
        "minute" => whole(length.nanoseconds / (60 * SECOND) % 60),
        "second" => whole(minute / SECOND),
        "millisecond" | "m" => whole(minute / 1_000_000),
        "microsecond" | "u" => whole(minute / 1_000),
        "nanosecond" | "n" => whole(minute),
        other => plan_err!("a length of time has no {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        assert_eq!(format_of_chrono("%H:%M:%S.%f", "%.f"), "%H:%M:%S%.f");
        assert_eq!(format_of_chrono("%S.%f %f", ""), "%S.%6f %6f");
        assert_eq!(format_of_chrono("100 %% %f%", "%.f"), "100 %% %6f%");
    }

    #[test]
    fn instants() {
        let seconds = |text, format| instant(text, format).map(|micros| micros / 1_000_000);
        assert_eq!(seconds("2020-01-02", "%Y-%m-%d"), Some(1_577_923_200));
        assert_eq!(seconds("01/02/2020 03", "%m/%d/%Y %H"), Some(1_577_934_000));
        assert_eq!(seconds("2020-01", "%Y-%m"), Some(1_577_836_800));
        assert_eq!(seconds("2020", "%Y"), Some(1_577_836_800));
        assert_eq!(seconds("2020-01-01 00:00 +0100", "%Y-%m-%d %H:%M %z"), Some(1_577_833_200));
        assert_eq!(instant("1970-01-01 00:00:00.123", "%Y-%m-%d %H:%M:%S.%f"), Some(123_000));
        assert_eq!(instant("9999-12-31", "%Y-%m-%d"), Some(253_402_214_400_000_000));
        assert_eq!(instant("x", "%Y"), None);
    }
}
