//! Durations: what a user writes, in ticks of the stream's time.
//!
//! A stream on an Arrow timestamp takes text (`"5m"`) or nanoseconds (a `timedelta`); one on a logical clock
//! (`int64`) takes integers. Nothing is rounded: what is not a whole number of ticks is an error. Zero means
//! zero everywhere. Months differ in length: they are for windows of the calendar, and no number of ticks.

use crate::names::{type_name, unit_name};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A length of time as it was given.
///
/// ```
/// use datafusion::arrow::datatypes::{DataType, TimeUnit};
/// use whimbrel_plan::Duration;
///
/// # fn main() -> datafusion::common::Result<()> {
/// let seconds = DataType::Timestamp(TimeUnit::Second, None);
/// assert_eq!(Duration::from("1h30m").ticks(&seconds, "size")?, 5_400);
/// assert!(Duration::from("5ms").ticks(&seconds, "size").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Duration {
    /// `"5m"`, `"1h30m"`, `"-2s"`: numbers with a unit each.
    Text(String),
    /// Ticks of a logical clock.
    Ticks(i64),
    /// Nanoseconds.
    Nanos(i128),
    /// What SQL's `interval` is: days and months are those of the calendar, where there is one.
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds beside them.
        nanos: i64,
    },
}

/// So many days or months of the calendar; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum Every {
    /// Days.
    Days(i32),
    /// Months.
    Months(i32),
}

impl Every {
    /// So many of them.
    pub(crate) fn times(self, times: i64) -> Every {
        let times = i32::try_from(times).unwrap_or(i32::MAX);
        match self {
            Every::Days(days) => Every::Days(days.saturating_mul(times)),
            Every::Months(months) => Every::Months(months.saturating_mul(times)),
        }
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Every::Days(days) => write!(f, "{days}d"),
            Every::Months(months) if months % 12 == 0 => write!(f, "{}y", months / 12),
            Every::Months(months) => write!(f, "{months}mo"),
        }
    }
}

/// What a duration is made of. A day has 24 hours, where there is no calendar.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    months: i128,
    days: i128,
    nanos: i128,
}

const DAY: i128 = 86_400_000_000_000;

/// The units of time that have a length, longest first, in nanoseconds.
const UNITS: [(&str, i128); 7] = [
    ("d", DAY),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl From<&str> for Duration {
    fn from(text: &str) -> Self {
        Duration::Text(text.to_string())
    }
}

impl From<String> for Duration {
    fn from(text: String) -> Self {
        Duration::Text(text)
    }
}

impl From<i64> for Duration {
    fn from(ticks: i64) -> Self {
        Duration::Ticks(ticks)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Duration::Text(text) => write!(f, "{text:?}"),
            Duration::Ticks(ticks) => write!(f, "{ticks}"),
            Duration::Nanos(nanos) => f.write_str(&show_nanos(*nanos)),
            Duration::Interval { months: 0, days, nanos } => {
                f.write_str(&show_nanos(i128::from(*days) * DAY + i128::from(*nanos)))
            }
            Duration::Interval { months, days: 0, nanos: 0 } => write!(f, "{months}mo"),
            Duration::Interval { months, days, nanos } => {
                let rest = i128::from(*days) * DAY + i128::from(*nanos);
                write!(f, "{months}mo{}", show_nanos(rest))
            }
        }
    }
}

impl Duration {
    /// This duration in ticks of `time`, of any sign. `what` names the argument in messages.
    ///
    /// # Errors
    /// `Plan` if it has a unit and time is a number, or none and time has a unit, if it is no whole number of
    /// ticks, or too long.
    pub fn ticks(&self, time: &DataType, what: &str) -> Result<i64> {
        match (self, time) {
            (Duration::Ticks(ticks), DataType::Int64) => return Ok(*ticks),
            // No time at all is the same in every unit.
            (Duration::Ticks(0), _) => return Ok(0),
            (_, DataType::Int64) => {
                return plan_err!(
                    "{what}: {self} has a unit, but this stream's time is a logical clock (int64): pass an \
                    integer"
                );
            }
            (Duration::Ticks(ticks), _) => {
                return plan_err!(
                    "{what}: {ticks} has no unit; this stream's time is {}: pass a duration such as \"5m\"",
                    type_name(time)
                );
            }
            _ => {}
        }
        let parts = self.parts(what)?;
        if parts.months != 0 {
            return plan_err!(
                "{what}: {self} has months or years, which differ in length; give weeks, days or hours (windows that follow \
                each other, tumbling and hopping ones, may be of months)"
            );
        }
        let Some(nanos) = parts.days.checked_mul(DAY).and_then(|days| days.checked_add(parts.nanos)) else {
            return Err(too_long(self, what));
        };
        let (tick, unit) = tick_of(time, what)?;
        if nanos % tick != 0 {
            return plan_err!(
                "{what}: {self} is not a whole number of ticks: this stream's time is {}, one tick is \
                1{unit}",
                type_name(time)
            );
        }
        i64::try_from(nanos / tick).map_err(|_| too_long(self, what))
    }

    /// The days or the months, if it is so many of one of these.
    pub(crate) fn every(&self, what: &str) -> Result<Option<Every>> {
        let Parts { months, days, nanos } = self.parts(what)?;
        let number = |n: i128| i32::try_from(n).map_err(|_| too_long(self, what));
        match (months, days, nanos) {
            (0, days, 0) if days > 0 => Ok(Some(Every::Days(number(days)?))),
            (0, _, _) => Ok(None),
            (months, 0, 0) if months > 0 => Ok(Some(Every::Months(number(months)?))),
            (..=-1, _, _) => plan_err!("{what}: {self} is negative; give a positive duration"),
            _ => plan_err!("{what}: {self} is months and days, or hours: give months only, or no months"),
        }
    }

    /// Whether days are a part of it.
    pub(crate) fn has_days(&self, what: &str) -> Result<bool> {
        Ok(self.parts(what)?.days != 0)
    }

    fn parts(&self, what: &str) -> Result<Parts> {
        Ok(match self {
            Duration::Text(text) => parse(text, what)?,
            // A logical clock has no units.
            Duration::Ticks(_) => Parts::default(),
            Duration::Nanos(nanos) => Parts { nanos: *nanos, ..Parts::default() },
            Duration::Interval { months, days, nanos } => {
                Parts { months: (*months).into(), days: (*days).into(), nanos: (*nanos).into() }
            }
        })
    }

    /// This duration in ticks of `time`; zero and less are errors, and so is what reaches the end of time.
    ///
    /// # Errors
    /// `Plan` as [`ticks`](Duration::ticks), and if it is not positive or reaches the end of time.
    pub fn positive_ticks(&self, time: &DataType, what: &str) -> Result<i64> {
        match self.ticks(time, what)? {
            0 => plan_err!("{what}: {self} is no duration; give a positive one"),
            n if n < 0 => plan_err!("{what}: {self} is negative; give a positive duration"),
            i64::MAX => Err(too_long(self, what)),
            n => Ok(n),
        }
    }
}

/// The error for a duration that does not fit into 64 bits of ticks.
fn too_long(duration: &Duration, what: &str) -> datafusion::common::DataFusionError {
    plan_datafusion_err!("{what}: {duration} is too long: it does not fit in 64 bits of ticks")
}

/// Nanoseconds a tick, and the unit's name.
fn tick_of(time: &DataType, what: &str) -> Result<(i128, &'static str)> {
    match time {
        DataType::Timestamp(unit, _) => Ok((unit_nanos(*unit), unit_name(*unit))),
        other => plan_err!("{what}: a stream cannot count time in {}", type_name(other)),
    }
}

/// The nanoseconds of a unit.
fn unit_nanos(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// A text such as `1h30m`.
fn parse(text: &str, what: &str) -> Result<Parts> {
    let bad = |why: &str| {
        plan_datafusion_err!(
            "{what}: {text:?} is not a duration: {why}; write numbers with units, such as \"5m\" or \
            \"1h30m\" (units: ns, us, ms, s, m, h, d, w, mo, q, y)"
        )
    };
    let trimmed = text.trim();
    let (sign, mut rest) = match trimmed.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, trimmed),
    };
    if rest.is_empty() {
        return Err(bad("it is empty"));
    }
    let mut total = Parts::default();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let count: i128 = match number {
            "" => return Err(bad(&format!("a whole number is missing before {rest:?}"))),
            n => n.parse().map_err(|_| bad("the number is too large"))?,
        };
        let (part, size) = total.part(unit).ok_or_else(|| bad(&unknown_unit(unit, number, tail)))?;
        *part = count
            .checked_mul(sign * size)
            .and_then(|n| part.checked_add(n))
            .ok_or_else(|| bad("the number is too large"))?;
        rest = tail.trim_start();
    }
    Ok(total)
}

impl Parts {
    /// The part that a unit counts in, and how much of it the unit is.
    fn part(&mut self, unit: &str) -> Option<(&mut i128, i128)> {
        match unit {
            "y" => Some((&mut self.months, 12)),
            "q" => Some((&mut self.months, 3)),
            "mo" => Some((&mut self.months, 1)),
            "w" => Some((&mut self.days, 7)),
            "d" => Some((&mut self.days, 1)),
            "µs" | "μs" => Some((&mut self.nanos, 1_000)),
            unit => {
                let (_, size) = UNITS.iter().find(|(name, _)| *name == unit)?;
                Some((&mut self.nanos, *size))
            }
        }
    }
}

/// Why a unit was not understood.
fn unknown_unit(unit: &str, number: &str, tail: &str) -> String {
    match unit {
        "" if tail.starts_with('.') => format!("{number}{tail} is not a whole number; use a smaller unit"),
        "" => format!("{number} has no unit"),
        "M" => "\"M\" is not a unit, a month is \"mo\"".to_string(),
        "Y" => "\"Y\" is not a unit, a year is \"y\"".to_string(),
        _ => format!("{unit:?} is not a unit"),
    }
}

/// Ticks of `time` as a user would write them: `5m`, `1h30m`, or the plain number on a logical clock.
///
/// ```
/// use datafusion::arrow::datatypes::{DataType, TimeUnit};
/// use whimbrel_plan::duration::show_ticks;
///
/// assert_eq!(show_ticks(90_000, &DataType::Timestamp(TimeUnit::Millisecond, None)), "1m30s");
/// assert_eq!(show_ticks(90_000, &DataType::Int64), "90000");
/// ```
pub fn show_ticks(ticks: i64, time: &DataType) -> String {
    match time {
        DataType::Timestamp(unit, _) => show_nanos(ticks as i128 * unit_nanos(*unit)),
        _ => ticks.to_string(),
    }
}

/// A length of time on the wall as text, in as few units as possible.
pub fn show_wall(length: std::time::Duration) -> String {
    show_nanos(length.as_nanos() as i128)
}

/// Nanoseconds as text, in as few units as possible.
fn show_nanos(nanos: i128) -> String {
    if nanos == 0 {
        return "0s".to_string();
    }
    let mut text = String::from(if nanos < 0 { "-" } else { "" });
    let mut rest = nanos.abs();
    for (name, size) in UNITS {
        if rest >= size {
            text.push_str(&format!("{}{name}", rest / size));
            rest %= size;
        }
    }
    text
}
