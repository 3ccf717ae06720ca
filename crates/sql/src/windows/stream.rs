//! Windows over a stream with time: lifetimes.
//!
//! A row lives from the end of its window on, for as long as until the next window of its kind ends, so that
//! what is alive at an instant is one window, and an aggregate speaks of exactly that.

use super::{END, START, Window, fits};
use crate::moments::{Alive, alive};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{NullEquality, Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, cast, lit};
use whimbrel_plan::nodes::{AlterLifetime, extension};
use whimbrel_plan::{Agg, AggFunction, Duration, JoinKind, Stream, column};
use whimbrel_temporal::{Closed, DurationRule, StartRule};

/// How the lifetimes of `cumulate` are labelled.
const CUMULATE: &str = "cumulate ";

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

/// The column has to be the stream's time. Of a stream whose lifetimes were not made here only their type is known, and
/// that it is that very column is the user's word.
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

fn tumble(stream: &Stream, size: &Duration, clock: &DataType) -> Result<Stream> {
    let ticks = size.positive_ticks(clock, "tumble: size")?;
    let windows = stream.tumbling(size.clone(), 0, Closed::Left)?.with_start(END)?;
    placed(stream, &windows, minus(column(END), ticks, clock))
}

/// A row lives in pieces, one for each window that it is in, from where that window ends.
fn hop(stream: &Stream, slide: &Duration, size: &Duration, clock: &DataType) -> Result<Stream> {
    let slide_ticks = slide.positive_ticks(clock, "hop: slide")?;
    let size_ticks = size.positive_ticks(clock, "hop: size")?;
    fits("hop", ("slide", slide_ticks), ("size", size_ticks))?;
    let rows = stream.hopping(size.clone(), slide.clone(), 0, Closed::Left)?;
    let windows = rows.chop(slide.clone(), 0)?.with_start(END)?;
    placed(stream, &windows, minus(column(END), size_ticks, clock))
}

/// A row lives in pieces, from the first of its windows that ends after it to the last, which is as long as they grow.
fn cumulate(stream: &Stream, step: &Duration, size: &Duration, clock: &DataType) -> Result<Stream> {
    let step_ticks = step.positive_ticks(clock, "cumulate: step")?;
    let size_ticks = size.positive_ticks(clock, "cumulate: size")?;
    fits("cumulate", ("step", step_ticks), ("size", size_ticks))?;
    let start = StartRule::Snap { hop: step_ticks, offset: 0, closed: Closed::Left };
    let came = column("start");
    let to_the_last = floor(came.clone(), size_ticks) + lit(size_ticks) - floor(came, step_ticks);
    let label = format!("{CUMULATE}step {step} size {size}");
    let rows =
        AlterLifetime::try_new(stream.plan().clone(), start, DurationRule::ByStart(to_the_last), label)?;
    let windows = Stream::from_plan(extension(rows))?.chop(step.clone(), 0)?.with_start(END)?;
    // The last tick of a window is in it.
    let start = floor(cast(column(END), DataType::Int64) - lit(1_i64), size_ticks);
    placed(stream, &windows, cast(start, clock.clone()))
}

/// The last multiple of `size` that is not after an instant, also before the epoch.
fn floor(ticks: Expr, size: i64) -> Expr {
    let rest = |e: Expr| e % lit(size);
    ticks.clone() - rest(rest(ticks) + lit(size))
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
