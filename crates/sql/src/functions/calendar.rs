//! Instants by the calendar: `age(a, b)`, their difference in years, months, days and the rest;
//! `date_sub('month', a, b)`, how many whole units lie between; `date_trunc('month', a)` of instants that
//! DataFusion's, which counts nanoseconds, does not reach.
//!
//! ```sql
//! select age(timestamp '2024-03-01', timestamp '2023-01-15');  -- 13 months 17 days
//! select date_sub('month', date '2024-01-31', date '2024-02-29');  -- 1
//! ```

use super::Mapped;
use datafusion::arrow::array::{
    ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::{Arc, LazyLock};

/// A day in microseconds.
pub(super) const DAY: i64 = 86_400_000_000;

/// What instants are computed in.
const INSTANT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let length = |_: &[DataType]| Ok(DataType::Interval(IntervalUnit::MonthDayNano));
    vec![
        Mapped::function("age", Signature::any(2, Volatility::Immutable), length, ages),
        Mapped::function(
            "date_sub",
            Signature::any(3, Volatility::Immutable),
            |_| Ok(DataType::Int64),
            whole_units,
        ),
    ]
}

/// An instant by the calendar: months since year 0, the day of the month from 0, and the time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Calendar {
    /// Months since 1970.
    pub months: i64,
    /// The day of the month.
    day: i64,
    /// The time of the day in microseconds.
    time: i64,
}

impl Calendar {
    /// Of microseconds since 1970, in the proleptic Gregorian calendar: years begin in March, so that a leap
    /// day is the last of its year, and 400 of them have 146,097 days.
    pub fn of(instant: i64) -> Calendar {
        let (days, time) = (instant.div_euclid(DAY) + 719_468, instant.rem_euclid(DAY));
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        Calendar { months: (era * 400 + year) * 12 + month + 2, day: day - (153 * month + 2) / 5, time }
    }

    /// The first day of a month, in days since 1970.
    pub fn first_day(months: i64) -> i64 {
        let months = months - 2;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
        let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
        era * 146_097 + 365 * year + year / 4 - year / 100 + (153 * month + 2) / 5 - 719_468
    }

    /// The instant so many months later: on the same day, or the last one of a shorter month.
    pub fn months_later(self, months: i64) -> Option<i64> {
        let later = Calendar { months: self.months + months, ..self };
        let day = later.day.min(later.days_of_month() - 1);
        (Calendar::first_day(later.months) + day).checked_mul(DAY)?.checked_add(self.time)
    }

    /// How many days the month has.
    fn days_of_month(self) -> i64 {
        let year = self.months.div_euclid(12);
        match self.months.rem_euclid(12) {
            1 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            1 => 28,
            3 | 5 | 8 | 10 => 30,
            _ => 31,
        }
    }
}

/// From the earlier to the later; what a part lacks is taken from the next larger one, a month as long as
/// that of the earlier.
fn length(later: i64, earlier: i64) -> IntervalMonthDayNano {
    if later < earlier {
        let length = length(earlier, later);
        return IntervalMonthDayNano::new(-length.months, -length.days, -length.nanoseconds);
    }
    let (to, from) = (Calendar::of(later), Calendar::of(earlier));
    let (mut months, mut days, mut time) = (to.months - from.months, to.day - from.day, to.time - from.time);
    if time < 0 {
        time += DAY;
        days -= 1;
    }
    if days < 0 {
        days += from.days_of_month();
        months -= 1;
    }
    // An i64 of microseconds has no more than 7 million months.
    IntervalMonthDayNano::new(months as i32, days as i32, time * 1_000)
}

/// `date_trunc` of timestamps of all units but nanoseconds.
pub(crate) fn truncated() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let two = Signature::any(2, Volatility::Immutable);
        Mapped::function(
            "truncated",
            two,
            |types| Ok(types[1].clone()),
            |args| {
                let (units, instants) = (cast(&args[0], &DataType::Utf8)?, cast(&args[1], &INSTANT)?);
                let instants = instants.as_primitive::<TimestampMicrosecondType>();
                let first = |(unit, instant): (Option<&str>, Option<i64>)| {
                    unit.zip(instant).map(|(unit, instant)| first_of(unit, instant)).transpose()
                };
                let first = units.as_string::<i32>().iter().zip(instants).map(first);
                let first = first.collect::<Result<TimestampMicrosecondArray>>()?;
                Ok(cast(&first, args[1].data_type())?)
            },
        )
    });
    Arc::clone(&FUNCTION)
}

/// The first instant of the unit that an instant is in.
fn first_of(unit: &str, instant: i64) -> Result<i64> {
    let ticks = |size: i64| instant - instant.rem_euclid(size);
    let day = instant.div_euclid(DAY);
    let months = Calendar::of(instant).months;
    // As in DuckDB, a century begins with its round year here, though it is counted from the next one.
    let years = |size: i64| Calendar::first_day(12 * size * months.div_euclid(12 * size)) * DAY;
    Ok(match unit.to_ascii_lowercase().trim_end_matches('s') {
        "microsecond" => instant,
        "millisecond" => ticks(1_000),
        "second" => ticks(1_000_000),
        "minute" => ticks(60_000_000),
        "hour" => ticks(3_600_000_000),
        "day" => ticks(DAY),
        // 1970 began on a Thursday.
        "week" => (day - (day + 3).rem_euclid(7)) * DAY,
        "month" => Calendar::first_day(months) * DAY,
        "quarter" => Calendar::first_day(months - months.rem_euclid(3)) * DAY,
        "year" => years(1),
        "decade" => years(10),
        "century" | "centurie" => years(100),
        "millennium" | "millennia" => years(1_000),
        other => return plan_err!("date_trunc: there is no unit {other:?}"),
    })
}

/// `age(a, b)` of each row.
fn ages(instants: &[ArrayRef]) -> Result<ArrayRef> {
    let instants = [cast(&instants[0], &INSTANT)?, cast(&instants[1], &INSTANT)?];
    let [later, earlier] = [0, 1].map(|at| instants[at].as_primitive::<TimestampMicrosecondType>());
    let ages = later.iter().zip(earlier).map(|(later, earlier)| Some(length(later?, earlier?)));
    Ok(Arc::new(ages.collect::<IntervalMonthDayNanoArray>()))
}

/// `date_sub(unit, a, b)` of each row.
fn whole_units(args: &[ArrayRef]) -> Result<ArrayRef> {
    let units = cast(&args[0], &DataType::Utf8)?;
    let units = units.as_string::<i32>();
    let instants = [cast(&args[1], &INSTANT)?, cast(&args[2], &INSTANT)?];
    let [from, to] = [0, 1].map(|at| instants[at].as_primitive::<TimestampMicrosecondType>());
    let counts = units.iter().zip(from.iter().zip(to)).map(|(unit, (from, to))| {
        unit.zip(from.zip(to)).map(|(unit, (from, to))| between(unit, from, to)).transpose()
    });
    Ok(Arc::new(counts.collect::<Result<Int64Array>>()?))
}

/// A month is whole from a day to the same of another month, or to the last of a shorter one.
fn whole_months(from: i64, to: i64) -> i64 {
    let (from, to) = (Calendar::of(from), Calendar::of(to));
    let months = to.months - from.months;
    let last = to.day == to.days_of_month() - 1 && from.day > to.day && from.time <= to.time;
    let whole = last || (from.day, from.time) <= (to.day, to.time);
    if whole { months } else { months - 1 }
}

/// How many whole units lie between two instants.
fn between(unit: &str, from: i64, to: i64) -> Result<i64> {
    let months = |size: i64| match from <= to {
        true => whole_months(from, to) / size,
        false => -whole_months(to, from) / size,
    };
    let ticks = |size: i64| (to - from) / size;
    Ok(match unit.to_ascii_lowercase().trim_end_matches('s') {
        "millennium" => months(12_000),
        "century" => months(1_200),
        "decade" => months(120),
        "year" => months(12),
        "quarter" => months(3),
        "month" => months(1),
        "week" => ticks(7 * DAY),
        "day" => ticks(DAY),
        "hour" => ticks(3_600_000_000),
        "minute" => ticks(60_000_000),
        "second" => ticks(1_000_000),
        "millisecond" => ticks(1_000),
        "microsecond" => ticks(1),
        other => return plan_err!("date_sub: there is no unit {other:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_months_there_and_back() {
        for day in (-800_000..3_000_000).step_by(97) {
            let date = Calendar::of(day * DAY);
            assert_eq!(Calendar::first_day(date.months) + date.day, day);
        }
    }

    #[test]
    fn units_begin() {
        let day =
            |year: i64, month: i64, day: i64| (Calendar::first_day(12 * year + month - 1) + day - 1) * DAY;
        let noon = |at: i64| at + DAY / 2;
        let units = [("month", day(9999, 12, 1)), ("quarter", day(9999, 10, 1)), ("year", day(9999, 1, 1))];
        let longer =
            [("decade", day(9990, 1, 1)), ("century", day(9900, 1, 1)), ("millennium", day(9000, 1, 1))];
        for (unit, first) in units.into_iter().chain(longer) {
            assert_eq!(first_of(unit, noon(day(9999, 12, 31))).unwrap(), first, "{unit}");
        }
        assert_eq!(first_of("week", noon(day(2024, 2, 29))).unwrap(), day(2024, 2, 26));
        assert_eq!(first_of("week", noon(day(1969, 12, 28))).unwrap(), day(1969, 12, 22));
        assert_eq!(first_of("day", -1).unwrap(), -DAY);
    }
}
