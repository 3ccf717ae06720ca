//! Windows over a table, as expressions. Instants are in ticks of their type, so that logical clocks and
//! timestamps of any unit are one case.

use super::grid::{self, Hops};
use super::{Request, Window};
use crate::stream::emit;
use crate::stream::time_column::table_clock;
use crate::stream::window_nodes::{END, START};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::functions_window::expr_fn::lag;
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, WindowFrame,
    WindowFunctionDefinition, cast, lit, when,
};
use std::sync::Arc;
use whimbrel_plan::calendar::Grid;
use whimbrel_plan::{Duration, column};

/// A row's instant in ticks.
const TICKS: &str = "__window_ticks";

/// How many windows before the last one that a row is in.
const BACK: &str = "__window_back";

/// The rows of a table with the columns of their windows.
///
/// # Errors
/// `Plan` if the column is no time, or the sizes do not fit.
pub(super) fn with_windows(input: LogicalPlan, time: &str, request: &Request) -> Result<LogicalPlan> {
    let clock = table_clock(&input, time)?;
    let names: Vec<String> = input.schema().fields().iter().map(|f| f.name().clone()).collect();
    let ticks = cast(cast(column(time), clock.clone()), DataType::Int64);
    let ticks = request.place.closed_left(ticks).alias(TICKS);
    let timed = LogicalPlanBuilder::from(input)
        // A row without a time is in no window.
        .filter(column(time).is_not_null())?
        .project(names.iter().map(column).chain([ticks]).collect::<Vec<_>>())?;
    let grid = |hop: &Duration, what: &str| request.place.grid(hop, &clock, what);
    let mut retention = 0;
    let (plan, start, end) = match &request.window {
        Window::Tumble { size } => {
            let size = grid(size, "tumble: size")?;
            retention = grid::longest(&size, 1, &clock)?;
            (timed, size.boundary(column(TICKS), lit(0_i64)), size.boundary(column(TICKS), lit(1_i64)))
        }
        Window::Hop { slide, size } => {
            let slide = grid(slide, "hop: slide")?;
            let hops = grid::hops(&slide, size, &clock, request.place.zone.as_deref())?;
            retention = grid::longest(&slide, hops.windows, &clock)?;
            hop(timed, &names, &slide, hops)?
        }
        Window::Cumulate { step, size } => {
            let (step, size) = (grid(step, "cumulate: step")?, grid(size, "cumulate: size")?);
            let times = grid::steps(&step, &size, &clock)?;
            retention = grid::longest(&size, 1, &clock)?;
            cumulate(timed, &names, &step, &size, times)?
        }
        Window::Session { gap, key } => session(timed, gap, key, &clock)?,
    };
    let instant = |ticks: Expr, name: &str| cast(ticks, clock.clone()).alias(name);
    let new = [instant(start, START), instant(end, END)];
    let plan = plan.project(names.iter().map(column).chain(new).collect::<Vec<_>>())?.build()?;
    emit::keep_longer(plan, retention)
}

/// Every row repeated for each of its windows, numbered from 0.
fn repeated(input: LogicalPlanBuilder, names: &[String], times: i64) -> Result<LogicalPlanBuilder> {
    let numbers = make_array((0..times).map(lit).collect()).alias(BACK);
    let all = names.iter().map(column).chain([column(TICKS), numbers]).collect::<Vec<_>>();
    input.project(all)?.unnest_column(Column::from_name(BACK))
}

/// The rows, and the start and the end of their windows in ticks.
type Placed = (LogicalPlanBuilder, Expr, Expr);

/// Windows of `hop`.
fn hop(timed: LogicalPlanBuilder, names: &[String], slide: &Grid, hops: Hops) -> Result<Placed> {
    let Hops { windows, uneven } = hops;
    let start = slide.boundary(column(TICKS), lit(0_i64) - column(BACK));
    let rows = repeated(timed, names, windows)?;
    match uneven {
        None => Ok((rows, start, slide.boundary(column(TICKS), lit(windows) - column(BACK)))),
        Some(size) => {
            let end = start.clone() + lit(size);
            Ok((rows.filter(column(TICKS).lt(end.clone()))?, start, end))
        }
    }
}

/// Windows of `cumulate`.
fn cumulate(
    timed: LogicalPlanBuilder,
    names: &[String],
    step: &Grid,
    size: &Grid,
    times: i64,
) -> Result<Placed> {
    let end = step.boundary(column(TICKS), column(BACK) + lit(1_i64));
    let last = size.boundary(column(TICKS), lit(1_i64));
    let plan = repeated(timed, names, times)?.filter(end.clone().lt_eq(last))?;
    Ok((plan, size.boundary(column(TICKS), lit(0_i64)), end))
}

/// A row that comes `gap` or more after the one before it starts a session; a session has the number of
/// sessions that started before.
fn session(timed: LogicalPlanBuilder, gap: &Duration, key: &[String], clock: &DataType) -> Result<Placed> {
    const BEFORE: &str = "__window_before";
    const NUMBER: &str = "__window_number";
    const FIRST: &str = "__window_first";
    const LAST: &str = "__window_last";
    let gap = gap.positive_ticks(clock, "session: gap")?;
    let by: Vec<Expr> = key.iter().map(column).collect();
    let order = vec![Sort::new(column(TICKS), true, false)];
    let before =
        lag(column(TICKS), Some(1), None).partition_by(by.clone()).order_by(order.clone()).build()?;
    let plan = timed.window([before.alias(BEFORE)])?;
    let starts = when(column(BEFORE).is_null(), lit(1_i64))
        .when((column(TICKS) - column(BEFORE)).gt_eq(lit(gap)), lit(1_i64))
        .otherwise(lit(0_i64))?;
    let number = over(sum_udaf(), starts)
        .partition_by(by.clone())
        .order_by(order)
        .window_frame(WindowFrame::new(Some(false)))
        .build()?;
    let plan = plan.window([number.alias(NUMBER)])?;
    let within: Vec<Expr> = by.into_iter().chain([column(NUMBER)]).collect();
    let extreme = |function, name: &str| -> Result<Expr> {
        Ok(over(function, column(TICKS)).partition_by(within.clone()).build()?.alias(name))
    };
    let plan = plan.window([extreme(min_udaf(), FIRST)?, extreme(max_udaf(), LAST)?])?;
    Ok((plan, column(FIRST), column(LAST) + lit(ScalarValue::Int64(Some(gap)))))
}

/// An aggregate as a window function.
fn over(function: Arc<AggregateUDF>, argument: Expr) -> Expr {
    Expr::from(WindowFunction::new(WindowFunctionDefinition::AggregateUDF(function), vec![argument]))
}
