//! Differences of instants by the calendar: `age(a, b)`, in years, months, days and the rest; `date_sub('month', a, b)`, how many whole
//! units lie between.

use super::Mapped;
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalUnit, TimeUnit, TimestampNanosecondType,
};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

const DAY: i64 = 86_400_000_000_000;

pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let instant = || DataType::Timestamp(TimeUnit::Nanosecond, None);
    let length = |_: &[DataType]| Ok(DataType::Interval(IntervalUnit::MonthDayNano));
    vec![
        Mapped::exact("age", vec![instant(), instant()], length, ages),
        Mapped::exact(
            "date_sub",
            vec![DataType::Utf8, instant(), instant()],
            |_| Ok(DataType::Int64),
            whole_units,
        ),
    ]
}

/// An instant by the calendar: months since year 0, the day of the month from 0, and the time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Calendar {
    months: i64,
    day: i64,
    time: i64,
}

impl Calendar {
    /// Of nanoseconds since 1970, in the proleptic Gregorian calendar: years begin in March, so that a leap day is the last of its
    /// year, and 400 of them have 146,097 days.
    fn of(instant: i64) -> Calendar {
        let (days, time) = (instant.div_euclid(DAY) + 719_468, instant.rem_euclid(DAY));
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        Calendar { months: (era * 400 + year) * 12 + month + 2, day: day - (153 * month + 2) / 5, time }
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

/// From the earlier to the later; what a part lacks is taken from the next larger one, a month as long as that of the earlier.
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
    // An i64 of nanoseconds has no more than 7,000 months.
    IntervalMonthDayNano::new(months as i32, days as i32, time)
}

fn ages(instants: &[ArrayRef]) -> Result<ArrayRef> {
    let [later, earlier] = [0, 1].map(|at| instants[at].as_primitive::<TimestampNanosecondType>());
    let ages = later.iter().zip(earlier).map(|(later, earlier)| Some(length(later?, earlier?)));
    Ok(Arc::new(ages.collect::<IntervalMonthDayNanoArray>()))
}

fn whole_units(args: &[ArrayRef]) -> Result<ArrayRef> {
    let units = args[0].as_string::<i32>();
    let [from, to] = [1, 2].map(|at| args[at].as_primitive::<TimestampNanosecondType>());
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
        "hour" => ticks(3_600_000_000_000),
        "minute" => ticks(60_000_000_000),
        "second" => ticks(1_000_000_000),
        "millisecond" => ticks(1_000_000),
        "microsecond" => ticks(1_000),
        other => return plan_err!("date_sub: there is no unit {other:?}"),
    })
}
