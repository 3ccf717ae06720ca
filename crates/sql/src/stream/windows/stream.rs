//! Windows over a stream with time, as lifetimes.
//!
//! A row lives from the end of its window until the next window of its kind ends, so that the rows of one
//! window are alive at an instant, and an aggregate at that instant is one over this window.

use super::{Place, Request, Window, grid};
use crate::stream::time_column::check_time_column;
use crate::stream::window_nodes::{CUMULATE, END, SESSION_START, START};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, cast, lit};
use whimbrel_plan::calendar::Grid;
use whimbrel_plan::nodes::{AlterLifetime, ChangeLifetimes, HoppingWindows, LifetimeChange, extension};
use whimbrel_plan::{Duration, Stream, column};
use whimbrel_temporal::{DurationRule, StartRule};

/// The rows of a stream with the columns of their windows.
///
/// # Errors
/// `Plan` if the column is not the time of the stream, or the sizes do not fit.
pub(super) fn with_windows(input: LogicalPlan, time: &str, request: &Request) -> Result<LogicalPlan> {
    let stream = Stream::from_plan(input)?;
    let Some(clock) = stream.properties().time.clone() else {
        return internal_err!("windows over a stream need its time");
    };
    check_time_column(&stream, time, &clock)?;
    let Place { offset, zone, closed } = &request.place;
    let (zone, closed) = (zone.as_deref(), *closed);
    let grid = |hop: &Duration, what: &str| request.place.grid(hop, &clock, what);
    let windowed = match &request.window {
        Window::Tumble { size } => {
            let windows = stream.tumbling_in(size.clone(), offset.clone(), closed, zone)?.with_start(END)?;
            with_window_columns(&stream, &windows, start(&grid(size, "tumble: size")?, 1, &clock))?
        }
        Window::Hop { slide, size } => {
            let beats = grid(slide, "hop: slide")?;
            let hops = grid::hops(&beats, size, &clock, zone)?;
            match (hops.uneven, &beats) {
                (Some(size), Grid::Ticks { hop, offset }) => {
                    let offset = (offset + size % hop) % hop;
                    uneven_hops(&stream, HoppingWindows { size, hop: *hop, offset, closed }, &clock)?
                }
                _ => {
                    let rows =
                        stream.hopping_in(size.clone(), slide.clone(), offset.clone(), closed, zone)?;
                    let windows = chop(rows.plan().clone(), &beats)?.with_start(END)?;
                    with_window_columns(&stream, &windows, start(&beats, hops.windows, &clock))?
                }
            }
        }
        Window::Cumulate { step, size } => {
            let label = format!("{CUMULATE}step {step} size {size}");
            let (step, size) = (grid(step, "cumulate: step")?, grid(size, "cumulate: size")?);
            grid::steps(&step, &size, &clock)?;
            cumulate(&stream, &step, &size, label, &clock, &request.place)?
        }
        Window::Session { gap, key } => session(&stream, gap, key)?,
    };
    Ok(windowed.plan().clone())
}

/// The start of a window of so many hops, from its end.
fn start(grid: &Grid, hops: i64, clock: &DataType) -> Expr {
    match grid {
        Grid::Ticks { hop, .. } => minus(column(END), hop.saturating_mul(hops), clock),
        // The last tick of a window is in it.
        Grid::Calendar(calendar) => {
            let last = cast(column(END), DataType::Int64) - lit(1_i64);
            cast(calendar.boundary(last, lit(1 - hops)), clock.clone())
        }
    }
}

/// Cuts lifetimes into pieces, one for each window of a row, each from the end of its window.
fn chop(rows: LogicalPlan, beats: &Grid) -> Result<Stream> {
    Stream::from_plan(extension(ChangeLifetimes::try_new(rows, LifetimeChange::Chop(beats.clone()))?))
}

/// Windows that end on a grid, and begin between its instants.
fn uneven_hops(stream: &Stream, windows: HoppingWindows, clock: &DataType) -> Result<Stream> {
    let HoppingWindows { size, hop, offset, .. } = windows;
    let rows = ChangeLifetimes::try_new(stream.plan().clone(), LifetimeChange::Hop(windows))?;
    let rows = chop(extension(rows), &Grid::Ticks { hop, offset })?.with_start(END)?;
    with_window_columns(stream, &rows, minus(column(END), size, clock))
}

/// A row lives in pieces, from the end of its first window on. The last and largest one lives until the next
/// step, as all do.
fn cumulate(
    stream: &Stream,
    step: &Grid,
    size: &Grid,
    label: String,
    clock: &DataType,
    place: &Place,
) -> Result<Stream> {
    let row_time = || place.closed_left(column("start"));
    let last_end = size.boundary(row_time(), lit(1_i64));
    let duration = step.boundary(last_end, lit(1_i64)) - step.boundary(row_time(), lit(1_i64));
    let first = match step {
        Grid::Ticks { hop, offset } => StartRule::Snap { hop: *hop, offset: *offset, closed: place.closed },
        Grid::Calendar(calendar) => StartRule::By(calendar.boundary(row_time(), lit(1_i64))),
    };
    let rows = AlterLifetime::try_new(stream.plan().clone(), first, DurationRule::ByStart(duration), label)?;
    let windows = chop(extension(rows), step)?.with_start(END)?;
    // The last tick of a window is in it.
    let start = size.boundary(cast(column(END), DataType::Int64) - lit(1_i64), lit(0_i64));
    with_window_columns(stream, &windows, cast(start, clock.clone()))
}

/// The rows at the end of their session, with the time of its first row.
fn session(stream: &Stream, gap: &Duration, key: &[String]) -> Result<Stream> {
    let by = key.iter().map(column).collect();
    let rows = stream.rekey(by)?.session_windows(gap.clone(), None, SESSION_START)?.with_start(END)?;
    with_window_columns(stream, &rows, column(SESSION_START))
}

/// An instant so many ticks earlier.
fn minus(instant: Expr, ticks: i64, clock: &DataType) -> Expr {
    let ticks = lit(ScalarValue::Int64(Some(ticks)));
    match clock {
        DataType::Int64 => instant - ticks,
        _ => cast(cast(instant, DataType::Int64) - ticks, clock.clone()),
    }
}

/// The columns of the stream, and then those of the window.
fn with_window_columns(stream: &Stream, windows: &Stream, start: Expr) -> Result<Stream> {
    let own = stream.schema().fields().iter().map(|f| column(f.name()));
    windows.rekey(vec![])?.select(own.chain([start.alias(START), column(END)]).collect())
}
