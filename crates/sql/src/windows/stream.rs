//! Windows over a stream with time: lifetimes.
//!
//! A row lives from the end of its window on, for as long as until the next window of its kind ends, so that
//! what is alive at an instant is one window, and an aggregate speaks of exactly that.

use super::{END, START, Window, fits};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, cast, lit};
use whimbrel_plan::{Agg, AggFunction, Duration, JoinKind, Stream, column};
use whimbrel_temporal::Closed;

/// When a row came.
const CAME: &str = "__window_time";

pub(super) fn windowed(input: LogicalPlan, time: &str, window: &Window) -> Result<LogicalPlan> {
    let stream = Stream::from_plan(input)?;
    let Some(clock) = stream.properties().time.clone() else {
        return internal_err!("windows over a stream need its time");
    };
    check(&stream, time, &clock)?;
    let windowed = match window {
        Window::Tumble { size } => tumble(&stream, size, &clock)?,
        Window::Hop { slide, size } => hop(&stream, slide, size, &clock)?,
        Window::Cumulate { step, size } => cumulate(&stream, step, size, &clock)?,
        Window::Session { gap, key } => session(&stream, gap, key)?,
    };
    Ok(windowed.plan().clone())
}

/// The column has to be of the type of the stream's time; that it is that very column is the user's word.
fn check(stream: &Stream, time: &str, clock: &DataType) -> Result<()> {
    let field = stream.schema().field_with_name(time)?;
    match field.data_type() == clock {
        true => Ok(()),
        false => plan_err!(
            "column {time:?} is {}, the time of the stream {}; name the column that the stream gets its time from",
            whimbrel_plan::names::type_name(field.data_type()),
            whimbrel_plan::names::type_name(clock)
        ),
    }
}

fn tumble(stream: &Stream, size: &Duration, clock: &DataType) -> Result<Stream> {
    let ticks = size.positive_ticks(clock, "tumble: size")?;
    let windows = stream.tumbling(size.clone(), 0, Closed::Left)?.with_start(END)?;
    placed(stream, &windows, minus(column(END), ticks, clock))
}

/// One tumbling stream for each of the windows that a row is in, moved to where that window ends.
fn hop(stream: &Stream, slide: &Duration, size: &Duration, clock: &DataType) -> Result<Stream> {
    let slide_ticks = slide.positive_ticks(clock, "hop: slide")?;
    let size_ticks = size.positive_ticks(clock, "hop: size")?;
    let times = fits("hop", ("slide", slide_ticks), ("size", size_ticks))?;
    let first = stream.tumbling(slide.clone(), 0, Closed::Left)?;
    let windows = moved(&first, times, slide_ticks, clock)?.with_start(END)?;
    placed(stream, &windows, minus(column(END), size_ticks, clock))
}

fn cumulate(stream: &Stream, step: &Duration, size: &Duration, clock: &DataType) -> Result<Stream> {
    let step_ticks = step.positive_ticks(clock, "cumulate: step")?;
    let size_ticks = size.positive_ticks(clock, "cumulate: size")?;
    let times = fits("cumulate", ("step", step_ticks), ("size", size_ticks))?;
    let first = stream.with_start(CAME)?.tumbling(step.clone(), 0, Closed::Left)?;
    let windows = moved(&first, times, step_ticks, clock)?.with_start(END)?;
    let came = cast(column(CAME), DataType::Int64);
    let rest = |e: Expr| e % lit(size_ticks);
    let start = came.clone() - rest(rest(came) + lit(size_ticks));
    let inside = cast(column(END), DataType::Int64).lt_eq(start.clone() + lit(size_ticks));
    placed(stream, &windows.where_(inside)?, cast(start, clock.clone()))
}

/// The rows at the end of their session, with the time of its first row.
fn session(stream: &Stream, gap: &Duration, key: &[String]) -> Result<Stream> {
    let by: Vec<Expr> = key.iter().map(column).collect();
    let rows =
        stream.with_start(CAME)?.rekey(by)?.session(gap.clone(), None)?.point_at_end()?.with_start(END)?;
    let first = rows.aggregate(vec![(START.to_string(), Agg::of(AggFunction::Min, column(CAME)))])?;
    let kind = if key.is_empty() { JoinKind::Cross } else { JoinKind::Inner };
    let joined = rows.join(&first, vec![], kind, "_first")?;
    placed(stream, &joined, column(START))
}

/// The stream as often as there are windows, each later by one step than the one before.
fn moved(first: &Stream, times: i64, step: i64, clock: &DataType) -> Result<Stream> {
    let by = |number: i64| match clock {
        DataType::Int64 => Duration::Ticks(number * step),
        _ => Duration::Nanos(i128::from(number) * i128::from(step) * nanos(clock)),
    };
    (1..times).try_fold(first.clone(), |all, number| all.union(&first.shift(by(number))?))
}

/// How many nanoseconds a tick has.
fn nanos(clock: &DataType) -> i128 {
    use datafusion::arrow::datatypes::TimeUnit as Unit;
    match clock {
        DataType::Timestamp(Unit::Second, _) => 1_000_000_000,
        DataType::Timestamp(Unit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(Unit::Microsecond, _) => 1_000,
        _ => 1,
    }
}

fn minus(instant: Expr, ticks: i64, clock: &DataType) -> Expr {
    let ticks = lit(ScalarValue::Int64(Some(ticks)));
    match clock {
        DataType::Int64 => instant - ticks,
        _ => cast(cast(instant, DataType::Int64) - ticks, clock.clone()),
    }
}

/// The columns of the stream, then those of the window.
fn placed(stream: &Stream, windows: &Stream, start: Expr) -> Result<Stream> {
    let own = stream.schema().fields().iter().map(|f| column(f.name()));
    windows.rekey(vec![])?.select(own.chain([start.alias(START), column(END)]).collect())
}
