//! Where windows of the calendar begin: every so many days or months, when the clocks of a zone show it.
//!
//! Days are counted from 1970-01-01, local_seconds weeks from the Monday before, months from January 1970.
//!
//! The beginning that clocks show as `b` is the first instant at which they show `b` or later. So a midnight
//! that they skip is the instant after the gap, one that they show twice is the first of the two, and
//! beginnings are in order. Two that are one instant, as where a zone leaves out a local_seconds day, are
//! one: no window is empty.

use crate::duration::Every;
use arrow::array::timezone::Tz;
use arrow::datatypes::TimeUnit;
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Offset, TimeDelta, TimeZone, Timelike};
use std::ops::Range;

/// 1970-01-01, in days from the first of the year 1.
const EPOCH: i64 = 719_163;

impl Every {
    /// The day on which the windows are counted from, in days from 1970-01-01.
    pub(crate) fn origin(self) -> i64 {
        match self {
            Every::Days(days) if days % 7 == 0 => -3,
            _ => 0,
        }
    }

    /// The number of the window that a date is in.
    fn number(self, date: NaiveDate) -> i64 {
        match self {
            Every::Days(days) => {
                (i64::from(date.num_days_from_ce()) - EPOCH - self.origin()).div_euclid(days.into())
            }
            Every::Months(months) => {
                ((i64::from(date.year()) - 1970) * 12 + i64::from(date.month0())).div_euclid(months.into())
            }
        }
    }

    /// The first date of a window.
    fn first(self, number: i64) -> Option<NaiveDate> {
        match self {
            Every::Days(days) => {
                let day = number * i64::from(days) + self.origin() + EPOCH;
                NaiveDate::from_num_days_from_ce_opt(day.try_into().ok()?)
            }
            Every::Months(months) => {
                let month = number * i64::from(months);
                let year = i32::try_from(month.div_euclid(12) + 1970).ok()?;
                NaiveDate::from_ymd_opt(year, month.rem_euclid(12) as u32 + 1, 1)
            }
        }
    }
}

/// The beginnings of windows by the clocks of one zone, in ticks of one unit.
#[derive(Debug)]
pub(super) struct WindowStarts {
    every: Every,
    /// How long after midnight, as clocks show it.
    offset: TimeDelta,
    /// Without one, ticks are what clocks show.
    zone: Option<Tz>,
    unit: TimeUnit,
}

impl WindowStarts {
    /// None, if the offset is longer than what can be counted.
    pub fn new(every: Every, offset: i64, zone: Option<Tz>, unit: TimeUnit) -> Option<WindowStarts> {
        let offset = match unit {
            TimeUnit::Second => TimeDelta::try_seconds(offset)?,
            TimeUnit::Millisecond => TimeDelta::try_milliseconds(offset)?,
            TimeUnit::Microsecond => TimeDelta::microseconds(offset),
            TimeUnit::Nanosecond => TimeDelta::nanoseconds(offset),
        };
        Some(WindowStarts { every, offset, zone, unit })
    }

    /// The first tick of the window that a tick is in, and the first tick after it. None: one of them cannot
    /// be told.
    pub fn window(&self, tick: i64) -> Option<Range<i64>> {
        let at = self.instant(tick)?;
        let date = self.local_time(at)?.checked_sub_signed(self.offset)?.date();
        let mut number = self.every.number(date);
        let mut start = self.start_of(number)?;
        loop {
            let end = self.start_of(number + 1)?;
            if at < end {
                return Some(self.tick(start)?..self.tick(end)?);
            }
            // Clocks were set back to before the window.
            (number, start) = (number + 1, end);
        }
    }

    /// The beginning of the window so many windows after that of a tick; which window this is, is known.
    pub fn step(&self, window: Range<i64>, steps: i64) -> Option<i64> {
        let mut window = window;
        for _ in 0..steps {
            window = self.window(window.end)?;
        }
        for _ in steps..0 {
            window = self.window(window.start.checked_sub(1)?)?;
        }
        Some(window.start)
    }

    /// The instant at which a window begins.
    fn start_of(&self, number: i64) -> Option<NaiveDateTime> {
        let local = self.every.first(number)?.and_time(Default::default()).checked_add_signed(self.offset)?;
        let Some(zone) = &self.zone else { return Some(local) };
        let instants = zone.offset_from_local_datetime(&local);
        let instants = instants.map(|offset| local.checked_sub_offset(offset.fix()));
        match (instants.earliest(), instants.latest()) {
            (Some(one), Some(other)) => Some(one?.min(other?)),
            _ => self.after_gap(local),
        }
    }

    /// The first instant after a gap in which clocks would have local this.
    fn after_gap(&self, local: NaiveDateTime) -> Option<NaiveDateTime> {
        // No gap is as long as two days, and no clock is two days from UTC. Clocks are set at local_seconds
        // seconds.
        let (mut before, mut after) = (-172_800, 172_800);
        let local_seconds = local.with_nanosecond(0)?;
        let instant = |seconds| local_seconds.checked_add_signed(TimeDelta::seconds(seconds));
        while after - before > 1 {
            let middle = (before + after) / 2;
            match self.local_time(instant(middle)?)? < local {
                true => before = middle,
                false => after = middle,
            }
        }
        instant(after)
    }

    /// What clocks show at an instant.
    fn local_time(&self, at: NaiveDateTime) -> Option<NaiveDateTime> {
        match &self.zone {
            Some(zone) => at.checked_add_offset(zone.offset_from_utc_datetime(&at).fix()),
            None => Some(at),
        }
    }

    /// The UTC date and time of a tick.
    fn instant(&self, tick: i64) -> Option<NaiveDateTime> {
        let at = match self.unit {
            TimeUnit::Second => DateTime::from_timestamp(tick, 0)?,
            TimeUnit::Millisecond => DateTime::from_timestamp_millis(tick)?,
            TimeUnit::Microsecond => DateTime::from_timestamp_micros(tick)?,
            TimeUnit::Nanosecond => DateTime::from_timestamp_nanos(tick),
        };
        Some(at.naive_utc())
    }

    /// The tick of a UTC date and time; `None` if it does not fit into 64 bits.
    fn tick(&self, at: NaiveDateTime) -> Option<i64> {
        let at = at.and_utc();
        match self.unit {
            TimeUnit::Second => Some(at.timestamp()),
            TimeUnit::Millisecond => Some(at.timestamp_millis()),
            TimeUnit::Microsecond => Some(at.timestamp_micros()),
            TimeUnit::Nanosecond => at.timestamp_nanos_opt(),
        }
    }
}
