//! Windows over a stream with time: lifetimes.
//!
//! A row lives from the end of its window on, for as long as until the next window of its kind ends, so that
//! what is alive at an instant is one window, and an aggregate speaks of exactly that.

use super::{Asked, END, START, Window, grid};
use crate::stream::semantics::{Alive, alive};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{NullEquality, Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, cast, lit};
use whimbrel_plan::calendar::Grid;
use whimbrel_plan::nodes::{AlterLifetime, Chop, extension};
use whimbrel_plan::{Agg, AggFunction, Duration, JoinKind, Stream, column};
use whimbrel_temporal::{Closed, DurationRule, StartRule};

/// How the lifetimes of `cumulate` are labelled.
const CUMULATE: &str = "cumulate ";

/// When a row came.
const CAME: &str = "__window_time";

pub(super) fn windowed(input: LogicalPlan, time: &str, asked: &Asked) -> Result<LogicalPlan> {
    let stream = Stream::from_plan(input)?;
    let Some(clock) = stream.properties().time.clone() else {
        return internal_err!("windows over a stream need its time");
    };
    check(&stream, time, &clock)?;
    let zone = asked.zone.as_deref();
    let grid = |hop: &Duration, what: &str| Grid::new(hop, 0, &clock, zone, what);
    let windowed = match &asked.window {
        Window::Tumble { size } => {
            let windows = stream.tumbling_in(size.clone(), 0, Closed::Left, zone)?.with_start(END)?;
            placed(&stream, &windows, start(&grid(size, "tumble: size")?, 1, &clock))?
        }
        Window::Hop { slide, size } => {
            let beats = grid(slide, "hop: slide")?;
            let times = grid::hops(&beats, size, &clock, zone)?;
            let rows = stream.hopping_in(size.clone(), slide.clone(), 0, Closed::Left, zone)?;
            let windows = chopped(rows.plan().clone(), &beats)?.with_start(END)?;
            placed(&stream, &windows, start(&beats, times, &clock))?
        }
        Window::Cumulate { step, size } => {
            let label = format!("{CUMULATE}step {step} size {size}");
            let (step, size) = (grid(step, "cumulate: step")?, grid(size, "cumulate: size")?);
            grid::steps(&step, &size, &clock)?;
            cumulate(&stream, &step, &size, label, &clock)?
        }
        Window::Session { gap, key } => session(&stream, gap, key)?,
    };
    Ok(windowed.plan().clone())
}

/// The column has to be the stream's time. Of a stream whose lifetimes were not made here only their type is
/// known, and that it is that very column is the user's word.
fn check(stream: &Stream, time: &str, clock: &DataType) -> Result<()> {
    let field = stream.schema().field_with_name(time)?;
    if field.data_type() != clock {
        return plan_err!(
            "column {time:?} is {}, the time of the stream {}; name the column that the stream gets its time from",
            whimbrel_plan::names::type_name(field.data_type()),
            whimbrel_plan::names::type_name(clock)
        );
    }
    let Alive::From(moments) = alive(stream.plan())? else { return Ok(()) };
    if moments.are(stream.schema().index_of(time)?) {
        return Ok(());
    }
    let columns = stream.schema().fields().iter().enumerate();
    let times: Vec<String> =
        columns.filter(|(place, _)| moments.are(*place)).map(|(_, f)| format!("{:?}", f.name())).collect();
    match times.as_slice() {
        [] => plan_err!(
            "{time:?} is not the time at which these rows come, and no other column is: keep the column that the stream \
             was read with as its time, and compute with it afterwards"
        ),
        times => plan_err!(
            "{time:?} is not the time at which these rows come, {} is: make windows of that, or read the source with \
             time=\"{time}\"",
            times.join(" or ")
        ),
    }
}

/// Whether these are the lifetimes of `cumulate`.
pub(crate) fn is_cumulate(alter: &AlterLifetime) -> bool {
    alter.label.starts_with(CUMULATE)
}

/// Whether a join puts the first instant of each session beside its rows.
pub(crate) fn is_session(join: &Join) -> bool {
    let mut first = join.right.as_ref();
    while let LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) = first {
        first = first.inputs()[0];
    }
    let LogicalPlan::Aggregate(aggregate) = first else { return false };
    aggregate.aggr_expr.iter().any(|call| call.column_refs().iter().any(|column| column.name == CAME))
}

/// Where a window of so many hops begins that ends at a beginning of windows.
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

/// Rows live in pieces, one for each window that they are in, from where that window ends.
fn chopped(rows: LogicalPlan, beats: &Grid) -> Result<Stream> {
    Stream::from_plan(extension(Chop::try_new(rows, beats.clone())?))
}

/// A row lives in pieces, from the first of its windows that ends after it to the last, which is as long as
/// they grow.
fn cumulate(stream: &Stream, step: &Grid, size: &Grid, label: String, clock: &DataType) -> Result<Stream> {
    let came = || column("start");
    let to_the_last = size.boundary(came(), lit(1_i64)) - step.boundary(came(), lit(0_i64));
    let first = match step {
        Grid::Ticks { hop, offset } => StartRule::Snap { hop: *hop, offset: *offset, closed: Closed::Left },
        Grid::Calendar(calendar) => StartRule::By(calendar.boundary(came(), lit(1_i64))),
    };
    let rows =
        AlterLifetime::try_new(stream.plan().clone(), first, DurationRule::ByStart(to_the_last), label)?;
    let windows = chopped(extension(rows), step)?.with_start(END)?;
    // The last tick of a window is in it.
    let start = size.boundary(cast(column(END), DataType::Int64) - lit(1_i64), lit(0_i64));
    placed(stream, &windows, cast(start, clock.clone()))
}

/// The rows at the end of their session, with the time of its first row.
fn session(stream: &Stream, gap: &Duration, key: &[String]) -> Result<Stream> {
    let by: Vec<Expr> = key.iter().map(column).collect();
    let rows =
        stream.with_start(CAME)?.rekey(by)?.session(gap.clone(), None)?.point_at_end()?.with_start(END)?;
    let first = rows.aggregate(vec![(START.to_string(), Agg::of(AggFunction::Min, column(CAME)))])?;
    let kind = if key.is_empty() { JoinKind::Cross } else { JoinKind::Inner };
    let joined = nulls_meet(rows.join(&first, vec![], kind, "_first")?)?;
    placed(stream, &joined, column(START))
}

/// The same join, in which a key that is null is a key like others.
fn nulls_meet(joined: Stream) -> Result<Stream> {
    let plan = joined.plan().clone().transform_down(|plan| match plan {
        LogicalPlan::Join(mut join) => {
            join.null_equality = NullEquality::NullEqualsNull;
            Ok(Transformed::new(LogicalPlan::Join(join), true, TreeNodeRecursion::Stop))
        }
        other => Ok(Transformed::no(other)),
    });
    Stream::from_plan(plan.data()?)
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
