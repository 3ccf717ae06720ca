//! How often one window is in another.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use whimbrel_plan::Duration;
use whimbrel_plan::calendar::{Calendar, Grid, size_in_ticks, zone_of};
use whimbrel_plan::duration::Every;

/// A row is in so many windows at most.
const MANY: i64 = 10_000;

/// How long windows of `hop` are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hops {
    /// In how many windows a row is at most.
    pub windows: i64,
    /// The size in ticks, if it is no multiple of the slide, so that windows do not end where others begin.
    pub uneven: Option<i64>,
}

/// How long windows of `hop` are that begin on a grid.
///
/// # Errors
/// `Plan` if the size is no length of time, or a row would be in too many windows.
pub(super) fn hops(slide: &Grid, size: &Duration, clock: &DataType, zone: Option<&str>) -> Result<Hops> {
    match slide {
        Grid::Ticks { hop, .. } => {
            let size = size_in_ticks(size, clock, zone, "hop: size")?;
            let (whole, rest) = (size / hop, size % hop);
            let uneven = (rest != 0).then_some(size);
            Ok(Hops { windows: few(whole + i64::from(rest != 0), "hop")?, uneven })
        }
        Grid::Calendar(calendar) => {
            Ok(Hops { windows: few(calendar.times_in(size, "hop: size")?, "hop")?, uneven: None })
        }
    }
}

/// How many steps there are in a window of `cumulate`, at most. Every window begins with a step.
///
/// # Errors
/// `Plan` if windows begin where no step does, or a row would be in too many windows.
pub(super) fn steps(step: &Grid, size: &Grid, clock: &DataType) -> Result<i64> {
    /// The function, in messages.
    const NAME: &str = "cumulate";
    match (step, size) {
        (Grid::Ticks { hop, offset }, Grid::Ticks { hop: size, offset: begin }) => {
            if size % hop != 0 {
                return plan_err!("{NAME}: the size has to be a multiple of the step");
            }
            let times = few(size / hop, NAME)?;
            match (begin - offset) % hop {
                0 => Ok(times),
                _ => begin_apart(),
            }
        }
        (Grid::Ticks { hop, .. }, Grid::Calendar(size)) => {
            let day = Duration::from("1d").ticks(clock, NAME)?;
            if let Some(zone) = zone_of(size.time()) {
                return plan_err!(
                    "{NAME}: windows of {size} begin at midnight in {zone}, and every so many hours does not: give a step of \
                     days, or of months"
                );
            }
            if day % hop != 0 {
                return begin_apart();
            }
            few(days(size.every()) * (day / hop), NAME)
        }
        (Grid::Calendar(step), Grid::Calendar(size)) if nested(step, size) => {
            few(days(size.every()) / fewest_days(step.every()) + 1, NAME)
        }
        _ => begin_apart(),
    }
}

/// Whether windows begin only where steps do.
fn nested(step: &Calendar, size: &Calendar) -> bool {
    match (step.every(), size.every()) {
        (Every::Days(1), _) => true,
        (Every::Days(step), Every::Days(size)) => size % step == 0 && (step % 7 == 0) == (size % 7 == 0),
        (Every::Months(step), Every::Months(size)) => size % step == 0,
        _ => false,
    }
}

/// The error for windows that do not begin where steps do.
fn begin_apart<T>() -> Result<T> {
    plan_err!(
        "cumulate: the size has to be a multiple of the step, and windows begin where steps do: days in months, months in \
         years, hours in days (weeks begin on Mondays, and months within them)"
    )
}

/// How many ticks so many windows have together, at most.
///
/// # Errors
/// `Plan` if they are more than there are.
pub(super) fn longest(grid: &Grid, windows: i64, clock: &DataType) -> Result<i64> {
    match grid {
        Grid::Ticks { hop, .. } => Ok(hop.saturating_mul(windows)),
        Grid::Calendar(calendar) => {
            // A day has 25 hours where clocks are set back.
            let hours = i128::from(days(calendar.every())) * 25 * i128::from(windows);
            Duration::Nanos(hours * 3_600_000_000_000).ticks(clock, "window")
        }
    }
}

/// Days in a window, at most.
fn days(every: Every) -> i64 {
    match every {
        Every::Days(days) => days.into(),
        Every::Months(months) => i64::from(months) * 31,
    }
}

/// Days in a window, at least.
fn fewest_days(every: Every) -> i64 {
    match every {
        Every::Days(days) => days.into(),
        Every::Months(months) => i64::from(months) * 28,
    }
}

/// The number, unless a row would be in too many windows.
fn few(windows: i64, name: &str) -> Result<i64> {
    match windows {
        n if n > MANY => plan_err!("{name}: every row would be in {n} windows; at most {MANY} are possible"),
        n => Ok(n),
    }
}
