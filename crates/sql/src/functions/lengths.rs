//! Lengths of time: `to_days(n)` and its like, products and parts of them, and what they are compared by.
//!
//! For comparing, a month has 30 days and a day 24 hours, as in DuckDB and PostgreSQL.
//!
//! ```sql
//! select to_days(3), interval '1 hour' * 2.5;  -- 3 days, 2 hours 30 minutes
//! select interval '30 days' = interval '1 month';  -- true
//! ```

use super::Mapped;
use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit,
};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::ScalarUDF;
use std::sync::{Arc, LazyLock};

/// The type of intervals.
const LENGTH: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// The type that intervals are compared by.
const NANOSECONDS: DataType = DataType::Decimal128(38, 0);
/// A day in nanoseconds.
const DAY: i64 = 86_400_000_000_000;

/// The functions of this module.
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

/// The name of the function by which intervals are compared.
pub(crate) const INTERVAL_LENGTH: &str = "interval_length";

/// What a length is compared by: nanoseconds, of which the longest has more than fit into eight bytes.
pub(crate) fn comparable() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Mapped::exact(
            INTERVAL_LENGTH,
            vec![LENGTH],
            |_| Ok(NANOSECONDS),
            |lengths| {
                let lengths = lengths[0].as_primitive::<IntervalMonthDayNanoType>();
                let lengths: Decimal128Array = lengths.unary::<_, Decimal128Type>(length);
                Ok(Arc::new(lengths.with_data_type(NANOSECONDS)))
            },
        )
    });
    Arc::clone(&FUNCTION)
}

/// An interval in nanoseconds, for comparing.
fn length(length: IntervalMonthDayNano) -> i128 {
    let days = i128::from(length.months) * 30 + i128::from(length.days);
    days * i128::from(DAY) + i128::from(length.nanoseconds)
}

/// The error for an interval that is too long.
fn too_long() -> DataFusionError {
    DataFusionError::Execution("this length of time is too long for an interval".to_string())
}

/// An interval of each number.
fn of_numbers(
    numbers: &[ArrayRef],
    length: impl Fn(i64) -> Option<IntervalMonthDayNano>,
) -> Result<ArrayRef> {
    let numbers = numbers[0].as_primitive::<Int64Type>();
    let lengths = numbers.iter().map(|n| n.map(|n| length(n).ok_or_else(too_long)).transpose());
    Ok(Arc::new(lengths.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// Intervals of so many times `size` months.
fn months(numbers: &[ArrayRef], size: i64) -> Result<ArrayRef> {
    of_numbers(numbers, |n| Some(IntervalMonthDayNano::new(i32::try_from(n.checked_mul(size)?).ok()?, 0, 0)))
}

/// Intervals of so many times `size` days.
fn days(numbers: &[ArrayRef], size: i64) -> Result<ArrayRef> {
    of_numbers(numbers, |n| Some(IntervalMonthDayNano::new(0, i32::try_from(n.checked_mul(size)?).ok()?, 0)))
}

/// Intervals of so many times `size` nanoseconds.
fn nanoseconds(numbers: &[ArrayRef], size: i64) -> Result<ArrayRef> {
    of_numbers(numbers, |n| Some(IntervalMonthDayNano::new(0, 0, n.checked_mul(size)?)))
}

/// Intervals of so many times `size` seconds.
fn seconds(numbers: &[ArrayRef], size: f64) -> Result<ArrayRef> {
    let numbers = numbers[0].as_primitive::<Float64Type>();
    let length = |n: f64| Some(IntervalMonthDayNano::new(0, 0, whole(n * size)?));
    let lengths = numbers.iter().map(|n| n.map(|n| length(n).ok_or_else(too_long)).transpose());
    Ok(Arc::new(lengths.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// The whole number that is nearest, if it has a place in eight bytes.
fn whole(number: f64) -> Option<i64> {
    // The greatest number of eight bytes is no float: 2^63 is the first that is too large.
    let limit = 2_f64.powi(63);
    let number = number.round();
    (-limit <= number && number < limit).then_some(number as i64)
}

/// A number without what stands behind its point, if it has a place in four bytes.
fn cut(number: f64) -> Option<i32> {
    whole(number.trunc()).and_then(|number| i32::try_from(number).ok())
}

/// The products of intervals and numbers.
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
    let scaled = |length: IntervalMonthDayNano, number: f64| {
        let months = by(f64::from(length.months), number);
        let days = by(f64::from(length.days), number) + months.fract() * 30.0;
        let nanoseconds = by(length.nanoseconds as f64, number) + days.fract() * DAY as f64;
        Some(IntervalMonthDayNano::new(cut(months)?, cut(days)?, whole(nanoseconds)?))
    };
    let lengths = lengths.iter().zip(numbers).map(|(length, number)| {
        length.zip(number).map(|(length, number)| scaled(length, number).ok_or_else(too_long)).transpose()
    });
    Ok(Arc::new(lengths.collect::<Result<IntervalMonthDayNanoArray>>()?))
}
