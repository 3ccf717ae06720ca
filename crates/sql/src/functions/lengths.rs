//! Lengths of time: `to_days(n)` and its like, products and parts of them, and what they are compared by.
//!
//! For comparing, a month has 30 days and a day 24 hours, as in DuckDB and PostgreSQL.

use super::Mapped;
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::ScalarUDF;
use std::sync::{Arc, LazyLock};

const LENGTH: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAY: i64 = 86_400_000_000;

pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let whole = |name, compute| Mapped::exact(name, vec![DataType::Int64], |_| Ok(LENGTH), compute);
    vec![
        whole("to_millennia", |n| months(n, 12_000)),
        whole("to_centuries", |n| months(n, 1_200)),
        whole("to_decades", |n| months(n, 120)),
        whole("to_years", |n| months(n, 12)),
        whole("to_quarters", |n| months(n, 3)),
        whole("to_months", |n| months(n, 1)),
        whole("to_weeks", |n| days(n, 7)),
        whole("to_days", |n| days(n, 1)),
        whole("to_hours", |n| nanoseconds(n, 3_600_000_000_000)),
        whole("to_minutes", |n| nanoseconds(n, 60_000_000_000)),
        Mapped::exact("to_seconds", vec![DataType::Float64], |_| Ok(LENGTH), |n| seconds(n, 1e9)),
        Mapped::exact("to_milliseconds", vec![DataType::Float64], |_| Ok(LENGTH), |n| seconds(n, 1e6)),
        whole("to_microseconds", |n| nanoseconds(n, 1_000)),
    ]
}

/// `interval * number`
pub(crate) fn times() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Mapped::exact("interval_times", vec![LENGTH, DataType::Float64], |_| Ok(LENGTH), multiplied)
    });
    Arc::clone(&FUNCTION)
}

/// `interval / number`
pub(crate) fn parts() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Mapped::exact("interval_part", vec![LENGTH, DataType::Float64], |_| Ok(LENGTH), divided)
    });
    Arc::clone(&FUNCTION)
}

/// What a length is compared by: microseconds.
pub(crate) fn comparable() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Mapped::exact(
            "interval_length",
            vec![LENGTH],
            |_| Ok(DataType::Int64),
            |lengths| {
                let lengths = lengths[0].as_primitive::<IntervalMonthDayNanoType>();
                Ok(Arc::new(lengths.unary::<_, Int64Type>(length) as Int64Array))
            },
        )
    });
    Arc::clone(&FUNCTION)
}

fn length(length: IntervalMonthDayNano) -> i64 {
    let days = i64::from(length.months) * 30 + i64::from(length.days);
    days.saturating_mul(DAY).saturating_add(length.nanoseconds / 1_000)
}

fn too_long() -> DataFusionError {
    DataFusionError::Execution("this length of time is too long for an interval".to_string())
}

fn of_numbers(
    numbers: &[ArrayRef],
    length: impl Fn(i64) -> Option<IntervalMonthDayNano>,
) -> Result<ArrayRef> {
    let numbers = numbers[0].as_primitive::<Int64Type>();
    let lengths = numbers.iter().map(|n| n.map(|n| length(n).ok_or_else(too_long)).transpose());
    Ok(Arc::new(lengths.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

fn months(numbers: &[ArrayRef], size: i64) -> Result<ArrayRef> {
    of_numbers(numbers, |n| Some(IntervalMonthDayNano::new(i32::try_from(n.checked_mul(size)?).ok()?, 0, 0)))
}

fn days(numbers: &[ArrayRef], size: i64) -> Result<ArrayRef> {
    of_numbers(numbers, |n| Some(IntervalMonthDayNano::new(0, i32::try_from(n.checked_mul(size)?).ok()?, 0)))
}

fn nanoseconds(numbers: &[ArrayRef], size: i64) -> Result<ArrayRef> {
    of_numbers(numbers, |n| Some(IntervalMonthDayNano::new(0, 0, n.checked_mul(size)?)))
}

fn seconds(numbers: &[ArrayRef], size: f64) -> Result<ArrayRef> {
    let numbers = numbers[0].as_primitive::<Float64Type>();
    let lengths = numbers
        .unary::<_, IntervalMonthDayNanoType>(|n| IntervalMonthDayNano::new(0, 0, (n * size).round() as i64));
    Ok(Arc::new(lengths))
}

fn multiplied(args: &[ArrayRef]) -> Result<ArrayRef> {
    scaled(args, |part, factor| part * factor)
}

/// A product with `1 / 49` would not give whole days of 49.
fn divided(args: &[ArrayRef]) -> Result<ArrayRef> {
    if args[1].as_primitive::<Float64Type>().iter().flatten().any(|divisor| divisor == 0.0) {
        return exec_err!("a length of time cannot be divided by zero");
    }
    scaled(args, |part, divisor| part / divisor)
}

/// Each part by itself; what is left of a month goes to the days, and what is left of a day to the time.
fn scaled(args: &[ArrayRef], by: impl Fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let lengths = args[0].as_primitive::<IntervalMonthDayNanoType>();
    let numbers = args[1].as_primitive::<Float64Type>();
    let scaled = |(length, number): (Option<IntervalMonthDayNano>, Option<f64>)| {
        let (length, number) = length.zip(number)?;
        let months = by(f64::from(length.months), number);
        let days = by(f64::from(length.days), number) + months.fract() * 30.0;
        let nanoseconds = by(length.nanoseconds as f64, number) + days.fract() * DAY as f64 * 1_000.0;
        Some(IntervalMonthDayNano::new(months as i32, days as i32, nanoseconds.round() as i64))
    };
    Ok(Arc::new(lengths.iter().zip(numbers).map(scaled).collect::<IntervalMonthDayNanoArray>()))
}
