//! Durations: what a user writes, in ticks of the stream's time.
//!
//! A stream on an Arrow timestamp takes text (`"5m"`) or nanoseconds (a `timedelta`); one on a logical clock
//! (`int64`) takes integers. Nothing is rounded: what is not a whole number of ticks is an error. Zero means
//! zero everywhere.

use crate::names::{type_name, unit_name};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use std::fmt;

/// A length of time as it was given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Duration {
    /// `"5m"`, `"1h30m"`, `"-2s"`: numbers with a unit each.
    Text(String),
    /// Ticks of a logical clock.
    Ticks(i64),
    /// Nanoseconds.
    Nanos(i128),
}

/// The units of time, longest first, in nanoseconds.
const UNITS: [(&str, i128); 8] = [
    ("w", 604_800_000_000_000),
    ("d", 86_400_000_000_000),
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
        }
    }
}

impl Duration {
    /// This duration in ticks of `time`, of any sign. `what` names the argument in messages.
    pub fn ticks(&self, time: &DataType, what: &str) -> Result<i64> {
        let nanos = match (self, time) {
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
            (Duration::Text(text), _) => parse(text, what)?,
            (Duration::Nanos(nanos), _) => *nanos,
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

    /// This duration in ticks of `time`; zero and less are errors, and so is what reaches the end of time.
    pub fn positive_ticks(&self, time: &DataType, what: &str) -> Result<i64> {
        match self.ticks(time, what)? {
            0 => plan_err!("{what}: {self} is no duration; give a positive one"),
            n if n < 0 => plan_err!("{what}: {self} is negative; give a positive duration"),
            i64::MAX => Err(too_long(self, what)),
            n => Ok(n),
        }
    }
}

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

fn unit_nanos(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Nanoseconds in a text such as `1h30m`.
fn parse(text: &str, what: &str) -> Result<i128> {
    let bad = |why: &str| {
        plan_datafusion_err!(
            "{what}: {text:?} is not a duration: {why}; write numbers with units, such as \"5m\" or \
            \"1h30m\" (units: ns, us, ms, s, m, h, d, w)"
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
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let count: i128 = match number {
            "" => return Err(bad(&format!("a whole number is missing before {rest:?}"))),
            n => n.parse().map_err(|_| bad("the number is too large"))?,
        };
        let nanos = unit_in_nanos(unit).ok_or_else(|| bad(&unknown_unit(unit, number, tail)))?;
        total = count
            .checked_mul(nanos)
            .and_then(|n| total.checked_add(n))
            .ok_or_else(|| bad("the number is too large"))?;
        rest = tail.trim_start();
    }
    Ok(sign * total)
}

fn unit_in_nanos(unit: &str) -> Option<i128> {
    let unit = if unit == "µs" || unit == "μs" { "us" } else { unit };
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, nanos)| *nanos)
}

fn unknown_unit(unit: &str, number: &str, tail: &str) -> String {
    match unit {
        "" if tail.starts_with('.') => format!("{number}{tail} is not a whole number; use a smaller unit"),
        "" => format!("{number} has no unit"),
        "mo" | "M" | "y" | "Y" => format!("months and years differ in length, so {unit:?} is not a unit"),
        _ => format!("{unit:?} is not a unit"),
    }
}

/// Ticks of `time` as a user would write them: `5m`, `1h30m`, or the plain number on a logical clock.
pub fn show_ticks(ticks: i64, time: &DataType) -> String {
    match time {
        DataType::Timestamp(unit, _) => show_nanos(ticks as i128 * unit_nanos(*unit)),
        _ => ticks.to_string(),
    }
}

fn show_nanos(nanos: i128) -> String {
    if nanos == 0 {
        return "0s".to_string();
    }
    let mut text = String::from(if nanos < 0 { "-" } else { "" });
    let mut rest = nanos.abs();
    for (name, size) in UNITS {
        // Weeks are read, not written: seven days are clearer.
        if name != "w" && rest >= size {
            text.push_str(&format!("{}{name}", rest / size));
            rest %= size;
        }
    }
    text
}
