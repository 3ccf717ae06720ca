//! Instants, and what a row's two times say about its kind.
//!
//! A stream is a changing relation (trill.txt §5.2). A row carries `sync`, the instant at which it becomes
//! known, and `other`, and the two together tell its kind:
//!
//! | `other`        | kind       | meaning                                             |
//! |----------------|------------|-----------------------------------------------------|
//! | `> sync`       | interval   | alive over `[sync, other)`                          |
//! | `== INFINITY`  | start edge | alive from `sync`; the end is not known yet         |
//! | `< sync`       | end edge   | the row that began at `other` ends at `sync`        |

use arrow::datatypes::{DataType, TimeUnit};
use arrow::temporal_conversions::{
    timestamp_ms_to_datetime, timestamp_ns_to_datetime, timestamp_s_to_datetime, timestamp_us_to_datetime,
};
use std::fmt;

/// An instant: ticks in the unit of the stream's time column.
pub type Time = i64;

/// The end of time. A row whose end is unknown ends here; a punctuation at it says that the stream has ended.
pub const INFINITY: Time = i64::MAX;

/// The beginning of time: where the rows of a relation that was always there start.
pub const BEGINNING: Time = i64::MIN;

/// An instant as people read it: `2013-01-01T05:17:00` where ticks are of a unit of a calendar's time, else
/// the ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// The instant.
    pub time: Time,
    /// The unit of the stream's time column; none: a logical clock.
    pub unit: Option<TimeUnit>,
}

/// The unit of a type of time; none: a logical clock.
pub fn unit_of(data_type: &DataType) -> Option<TimeUnit> {
    match data_type {
        DataType::Timestamp(unit, _) => Some(*unit),
        _ => None,
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = match self.unit {
            Some(TimeUnit::Second) => timestamp_s_to_datetime(self.time),
            Some(TimeUnit::Millisecond) => timestamp_ms_to_datetime(self.time),
            Some(TimeUnit::Microsecond) => timestamp_us_to_datetime(self.time),
            Some(TimeUnit::Nanosecond) => timestamp_ns_to_datetime(self.time),
            None => None,
        };
        match date {
            Some(date) => write!(f, "{}", date.format("%Y-%m-%dT%H:%M:%S%.f")),
            None => write!(f, "{}", self.time),
        }
    }
}

/// What a row says about the relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Alive over `[sync, other)`.
    Interval,
    /// Alive from `sync` until an end edge says otherwise.
    Start,
    /// Ends the equal row that began at `other`.
    End,
}

impl Kind {
    /// The kind of a row with these two times.
    ///
    /// ```
    /// use whimbrel_temporal::{INFINITY, Kind};
    ///
    /// assert_eq!(Kind::of(10, 15), Kind::Interval);
    /// assert_eq!(Kind::of(10, INFINITY), Kind::Start);
    /// assert_eq!(Kind::of(15, 10), Kind::End);
    /// ```
    #[inline]
    pub fn of(sync: Time, other: Time) -> Kind {
        if other == INFINITY {
            Kind::Start
        } else if other > sync {
            Kind::Interval
        } else {
            Kind::End
        }
    }
}

/// `start + duration`, which never passes [`INFINITY`].
#[inline]
pub fn end_after(start: Time, duration: i64) -> Time {
    start.saturating_add(duration)
}

/// When something started that lasts so long and ends at `end`; none: it does not end.
pub(crate) fn start_before(end: Time, duration: i64) -> Option<Time> {
    (end < INFINITY).then(|| end.saturating_sub(duration))
}

/// The first instant of the grid `offset + k·hop` that is after `time` (or not before it, if `inclusive`).
/// The ends of time stay where they are. `hop` is positive.
///
/// ```
/// use whimbrel_temporal::time::next_on_grid;
///
/// assert_eq!(next_on_grid(12, 10, 0, false), 20);
/// assert_eq!(next_on_grid(20, 10, 0, false), 30);
/// assert_eq!(next_on_grid(20, 10, 0, true), 20);
/// ```
#[inline]
pub fn next_on_grid(time: Time, hop: i64, offset: i64, inclusive: bool) -> Time {
    if time == INFINITY || time == BEGINNING {
        return time;
    }
    match past_grid(time, hop, offset) {
        0 if inclusive => time,
        past => time.saturating_add(hop - past),
    }
}

/// The last instant of the grid `offset + k·hop` that is not after `time`.
/// The ends of time stay where they are. `hop` is positive.
///
/// ```
/// use whimbrel_temporal::time::last_on_grid;
///
/// assert_eq!(last_on_grid(12, 10, 0), 10);
/// assert_eq!(last_on_grid(-1, 10, 0), -10);
/// ```
#[inline]
pub fn last_on_grid(time: Time, hop: i64, offset: i64) -> Time {
    if time == INFINITY || time == BEGINNING {
        return time;
    }
    time.saturating_sub(past_grid(time, hop, offset))
}

/// How many ticks an instant is after the last one of the grid.
#[inline]
fn past_grid(time: Time, hop: i64, offset: i64) -> i64 {
    (time as i128 - offset as i128).rem_euclid(hop as i128) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_dates_where_there_is_a_calendar() {
        let show = |time, unit| Instant { time, unit }.to_string();
        assert_eq!(show(1_357_017_420, Some(TimeUnit::Second)), "2013-01-01T05:17:00");
        assert_eq!(show(1_357_017_420_250, Some(TimeUnit::Millisecond)), "2013-01-01T05:17:00.250");
        assert_eq!(
            show(1_357_017_420_000_000, unit_of(&DataType::Timestamp(TimeUnit::Microsecond, None))),
            "2013-01-01T05:17:00"
        );
        assert_eq!(show(-1, Some(TimeUnit::Nanosecond)), "1969-12-31T23:59:59.999999999");
        assert_eq!(show(17, unit_of(&DataType::Int64)), "17");
        // No calendar goes that far.
        assert_eq!(show(INFINITY, Some(TimeUnit::Second)), INFINITY.to_string());
    }
}
