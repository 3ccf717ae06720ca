//! Windows of the calendar: days, weeks, months, quarters and years of a time zone. A day is as long as it is
//! there, of 23 or 25 hours where clocks are set.
//!
//! As for windows of fixed size, the windows of a stream are a rule for lifetimes: a row lives from the end
//! of its window to the end of the next one. Streams and tables compute these ends by one function of an
//! instant, `calendar_boundary`.
//!
//! Invariant: windows of hours and shorter, and days where all days have 24 hours, are a [`Grid::Ticks`].

pub(crate) mod function;
mod window_starts;

use crate::duration::{Duration, Every, show_ticks};
use crate::names::{column, type_name};
use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, cast, lit};
use std::fmt;
use std::sync::Arc;
use whimbrel_temporal::{Closed, DurationRule, StartRule};

/// Names of the zone whose days are those of the ticks.
const UTC: [&str; 8] = ["UTC", "+00:00", "-00:00", "+0000", "+00", "Etc/UTC", "GMT", "Z"];

/// Where windows begin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub enum Grid {
    /// At `offset + k·hop`.
    Ticks {
        /// Ticks between two beginnings; positive.
        hop: i64,
        /// Where the grid lies.
        offset: i64,
    },
    /// Where days or months do.
    Calendar(Calendar),
}

/// Every so many days or months of a time zone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
pub struct Calendar {
    every: Every,
    /// How many ticks after midnight, as clocks show it.
    offset: i64,
    /// The type of the instants: a timestamp, in the zone if there is one.
    time: DataType,
}

/// The size of windows that begin at equal distances, in ticks.
///
/// # Errors
/// `Plan` if it is days that differ in length, or no positive whole number of ticks.
pub fn size_in_ticks(size: &Duration, time: &DataType, zone: Option<&str>, what: &str) -> Result<i64> {
    let time = &in_zone(time, zone, what)?;
    match zone_of(time) {
        Some(zone) if size.has_days(what)? => plan_err!(
            "{what}: {size} is days, which differ in length in {zone}, and windows begin every so many hours: give both in \
             days, or both in hours"
        ),
        _ => size.positive_ticks(time, what),
    }
}

/// Windows of the calendar, as lifetimes.
#[derive(Debug, Clone, PartialEq)]
pub struct CalendarWindows {
    /// Where they begin.
    pub calendar: Calendar,
    /// How many beginnings of windows there are in one.
    pub hops: i64,
    /// On which side they are closed.
    pub closed: Closed,
}

/// Whether there is a time zone of this name.
///
/// ```
/// use whimbrel_plan::calendar::check_zone;
///
/// assert!(check_zone("Europe/Berlin").is_ok());
/// assert!(check_zone("Europe/Atlantis").is_err());
/// ```
///
/// # Errors
/// `Plan` if not.
pub fn check_zone(zone: &str) -> Result<()> {
    match zone.parse::<Tz>() {
        Ok(_) => Ok(()),
        Err(_) => plan_err!(
            "there is no time zone {zone:?}: give a name such as 'Europe/Berlin' or 'UTC', or an offset such as '+02:00'"
        ),
    }
}

impl Grid {
    /// The windows that begin every `hop`, so many ticks later, over instants of type `time`. Days and months
    /// are those of `zone`, or of the type's.
    ///
    /// # Errors
    /// `Plan` if the hop is no length of such windows, or there is no such zone.
    pub fn new(hop: &Duration, offset: i64, time: &DataType, zone: Option<&str>, what: &str) -> Result<Grid> {
        let time = &in_zone(time, zone, what)?;
        let every = hop.every(what)?;
        match every {
            Some(every) if is_calendar(every, time) => {
                return Ok(Grid::Calendar(Calendar { every, offset, time: time.clone() }));
            }
            None if zone.is_some() => {
                return plan_err!(
                    "{what}: windows of {hop} are as long in every zone: leave zone out, and give an offset where they should \
                     begin at another instant"
                );
            }
            None if hop.has_days(what)? && zone_of(time).is_some() => {
                return plan_err!(
                    "{what}: {hop} is days and hours, and days differ in length in {}: give whole days, or hours",
                    zone_of(time).unwrap_or_default()
                );
            }
            _ => {}
        }
        let hop = hop.positive_ticks(time, what)?;
        let day = Duration::Nanos(86_400_000_000_000);
        let origin = match every.map(Every::origin) {
            None | Some(0) => 0,
            Some(days) => days * day.ticks(time, what)?,
        };
        let offset = (i128::from(offset) + i128::from(origin)).rem_euclid(hop.into()) as i64;
        Ok(Grid::Ticks { hop, offset })
    }

    /// The beginning of the window so many `steps` after that of an instant. Both are int64; the instant is
    /// in ticks.
    pub fn boundary(&self, instant: Expr, steps: Expr) -> Expr {
        match self {
            Grid::Calendar(calendar) => calendar.boundary(instant, steps),
            Grid::Ticks { hop, offset } => {
                let rest = |e: Expr| e % lit(*hop);
                let from = if *offset == 0 { instant.clone() } else { instant.clone() - lit(*offset) };
                let start = instant - rest(rest(from) + lit(*hop));
                match steps {
                    Expr::Literal(ScalarValue::Int64(Some(0)), _) => start,
                    Expr::Literal(ScalarValue::Int64(Some(steps)), _) => {
                        start + lit(steps.saturating_mul(*hop))
                    }
                    steps => start + steps * lit(*hop),
                }
            }
        }
    }
}

impl Calendar {
    /// Windows that begin every so many days or months, so many ticks after midnight, over instants of this
    /// type.
    ///
    /// # Errors
    /// `Plan` if they never begin, or the instants have no calendar.
    pub(crate) fn try_new(every: Every, offset: i64, time: DataType) -> Result<Calendar> {
        let (Every::Days(count) | Every::Months(count)) = every;
        if count < 1 || !matches!(time, DataType::Timestamp(..)) {
            return plan_err!("there are no windows of {count} days or months over {time}");
        }
        Ok(Calendar { every, offset, time })
    }

    /// How often the windows begin.
    pub fn every(&self) -> Every {
        self.every
    }

    /// The type of their instants.
    pub fn time(&self) -> &DataType {
        &self.time
    }

    /// How many ticks after midnight they begin.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Their zone, if it is another than that of a stream with this time.
    pub fn zone_beside(&self, time: &DataType) -> Option<&str> {
        match &self.time {
            own if own == time => None,
            DataType::Timestamp(_, zone) => zone.as_deref(),
            _ => None,
        }
    }

    /// How many of these windows are in one of `size`.
    ///
    /// # Errors
    /// `Plan` if they do not fit.
    pub fn times_in(&self, size: &Duration, what: &str) -> Result<i64> {
        let times = match (self.every, size.every(what)?) {
            (Every::Days(hop), Some(Every::Days(size))) if size % hop == 0 => size / hop,
            (Every::Months(hop), Some(Every::Months(size))) if size % hop == 0 => size / hop,
            _ => {
                return plan_err!(
                    "{what}: {size} is no multiple of {}: give both in days, or both in months",
                    self.every
                );
            }
        };
        Ok(times.into())
    }

    /// The beginning of the window so many steps after that of an instant; int64.
    pub fn boundary(&self, instant: Expr, steps: Expr) -> Expr {
        let (months, days) = match self.every {
            Every::Days(days) => (0, days),
            Every::Months(months) => (months, 0),
        };
        let every = ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, 0)));
        let args = vec![cast(instant, self.time.clone()), lit(every), lit(self.offset), steps];
        cast(function::boundary().call(args), DataType::Int64)
    }

    /// What `boundary` made: the windows, the instant, and the steps.
    pub fn of_boundary(expr: &Expr) -> Option<(Calendar, &Expr, &Expr)> {
        let Expr::Cast(outer) = expr else { return None };
        let Expr::ScalarFunction(call) = outer.expr.as_ref() else { return None };
        if call.func != *function::boundary() {
            return None;
        }
        let [Expr::Cast(inner), Expr::Literal(every, _), Expr::Literal(ScalarValue::Int64(offset), _), steps] =
            call.args.as_slice()
        else {
            return None;
        };
        let ScalarValue::IntervalMonthDayNano(Some(every)) = every else { return None };
        let every = if every.months == 0 { Every::Days(every.days) } else { Every::Months(every.months) };
        let calendar = Calendar { every, offset: (*offset)?, time: inner.field.data_type().clone() };
        Some((calendar, &inner.expr, steps))
    }
}

impl CalendarWindows {
    /// What they do to lifetimes.
    pub fn rules(&self) -> (StartRule<Expr>, DurationRule<Expr>) {
        let at = match self.closed {
            Closed::Left => column("start"),
            Closed::Right => column("start") - lit(1_i64),
        };
        let boundary = |steps: i64| self.calendar.boundary(at.clone(), lit(steps));
        (StartRule::By(boundary(1)), DurationRule::ByStart(boundary(1 + self.hops) - boundary(1)))
    }

    /// The windows that rules are of.
    pub fn of_rules(start: &StartRule<Expr>, duration: &DurationRule<Expr>) -> Option<CalendarWindows> {
        let DurationRule::ByStart(Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, .. })) = duration
        else {
            return None;
        };
        let (calendar, at, steps) = Calendar::of_boundary(left)?;
        let Expr::Literal(ScalarValue::Int64(Some(steps)), _) = steps else { return None };
        let closed = if matches!(at, Expr::Column(_)) { Closed::Left } else { Closed::Right };
        let windows = CalendarWindows { calendar, hops: steps - 1, closed };
        let (own_start, own_duration) = windows.rules();
        (own_start == *start && own_duration == *duration).then_some(windows)
    }

    /// Whether rows that are alive together start and end together.
    pub fn tumble(&self) -> bool {
        self.hops == 1
    }
}

/// The type of instants whose days are asked for.
fn in_zone(time: &DataType, zone: Option<&str>, what: &str) -> Result<DataType> {
    let Some(zone) = zone else { return Ok(time.clone()) };
    check_zone(zone)?;
    match time {
        DataType::Timestamp(unit, Some(_)) => Ok(DataType::Timestamp(*unit, Some(Arc::from(zone)))),
        DataType::Timestamp(_, None) => plan_err!(
            "{what}: the time is {}, which is what clocks show, and not in which zone: leave zone out, or cast it to an \
             instant, timestamp[us, UTC] if it is UTC, before it becomes the time (in SQL, at time zone 'UTC')",
            type_name(time)
        ),
        _ => plan_err!("{what}: the time is {}, which has no zone: leave zone out", type_name(time)),
    }
}

/// The zone of a time, if its days do not begin where those of the ticks do.
pub fn zone_of(time: &DataType) -> Option<&str> {
    match time {
        DataType::Timestamp(_, Some(zone)) => Some(zone.as_ref()).filter(|zone| !UTC.contains(zone)),
        _ => None,
    }
}

/// Whether windows differ in length. A logical clock has no calendar.
fn is_calendar(every: Every, time: &DataType) -> bool {
    matches!(time, DataType::Timestamp(..)) && (matches!(every, Every::Months(_)) || zone_of(time).is_some())
}

impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.every)?;
        if self.offset != 0 {
            write!(f, " offset {}", show_ticks(self.offset, &self.time))?;
        }
        if let DataType::Timestamp(_, Some(zone)) = &self.time {
            write!(f, " in {zone}")?;
        }
        Ok(())
    }
}
