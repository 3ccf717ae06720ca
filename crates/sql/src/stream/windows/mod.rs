//! The windows of time as table functions: `tumble`, `hop`, `session`, `cumulate`.
//!
//! `from tumble(clicks, time, interval '5 minutes')` gives every row of `clicks` with the columns
//! `window_start` and `window_end` of the window that it is in, once for every such window. A query that
//! groups by them aggregates windows. Flink's names of arguments are known, `tumble(data => table clicks,
//! timecol => descriptor(time), size => …)`, and its `session(table clicks partition by item, …)`.
//!
//! Over a table they are expressions of each row (`table`). Over a stream with time they are the nodes of the
//! fluent builder (`stream`): a row lives from the end of its window, when the result of the window is final.
//!
//! Days and months are those of the column's zone, or of the argument `zone`. Windows begin `offset` later
//! than usual, and are closed left, `[start, end)`, unless `closed => 'right'` makes them `(start, end]`.

mod grid;
mod place;
mod result;
mod stream;
mod table;

pub(crate) use result::lift_window_columns;

use crate::columns::with_unique_names;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::planner::{RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use datafusion::sql::sqlparser::ast::{self, FunctionArg, TableFactor};
use place::{Choice, place};
use whimbrel_plan::calendar::Grid;
use whimbrel_plan::{Duration, properties};
use whimbrel_temporal::Closed;

use super::table_function::{Arguments, Call, Signature, column, factor, length};
use super::window_nodes::{END, START};

/// The arguments of a window function.
#[derive(Debug)]
struct Request {
    /// The window.
    window: Window,
    /// Where windows lie.
    place: Place,
}

/// Where windows lie in time. Sessions lie where their rows do.
#[derive(Debug)]
struct Place {
    /// How much later than usual they begin.
    offset: Duration,
    /// The zone of their days and months; none: that of the time.
    zone: Option<String>,
    /// On which side they are closed.
    closed: Closed,
}

impl Default for Place {
    fn default() -> Place {
        Place { offset: Duration::Ticks(0), zone: None, closed: Closed::Left }
    }
}

impl Place {
    /// Where windows begin that do so every `hop`.
    fn grid(&self, hop: &Duration, clock: &DataType, what: &str) -> Result<Grid> {
        let offset = self.offset.ticks(clock, "windows: offset")?;
        Grid::new(hop, offset, clock, self.zone.as_deref(), what)
    }

    /// The instant, in ticks, by which the window of a row is found that is closed left. What is closed right
    /// has the rows of the tick after its own, and not those of its first.
    fn closed_left(&self, ticks: Expr) -> Expr {
        match self.closed {
            Closed::Left => ticks,
            Closed::Right => ticks - lit(1_i64),
        }
    }
}

/// A kind of window.
#[derive(Debug)]
enum Window {
    /// Adjacent windows.
    Tumble { size: Duration },
    /// Overlapping windows.
    Hop { slide: Duration, size: Duration },
    /// Windows that grow step by step.
    Cumulate { step: Duration, size: Duration },
    /// Windows that end after a gap between rows of a key.
    Session { gap: Duration, key: Vec<String> },
}

/// Plans window functions, and leaves all other relations to others.
#[derive(Debug)]
pub(crate) struct Windows;

impl RelationPlanner for Windows {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let Some(call) = Call::of(&relation, &["tumble", "hop", "cumulate", "session"]) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = plan_windows(call.function, call.args.clone(), context)?;
        Ok(call.relation(plan))
    }
}

/// How a window function is called.
fn signature(function: &'static str) -> Signature {
    let (usage, names): (_, &[&str]) = match function {
        "tumble" => ("tumble(table, time, size)", &["data", "timecol", "size"]),
        "hop" => ("hop(table, time, slide, size)", &["data", "timecol", "slide", "size"]),
        "cumulate" => ("cumulate(table, time, step, size)", &["data", "timecol", "step", "size"]),
        _ => ("session(table, time, gap, key…)", &["data", "timecol", "gap"]),
    };
    let choices = if function == "session" { &[] } else { Choice::NAMES };
    Signature { function, usage, names, choices }
}

/// The rows of a table or a stream with the columns of their windows.
fn plan_windows(
    name: &'static str,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let signature = signature(name);
    let Arguments { places, named } = Arguments::of(args, &signature)?;
    let usage = signature.usage;
    let [relation, time, rest @ ..] = places.as_slice() else {
        return plan_err!("{name}: an argument is missing; write {usage}");
    };
    let input = with_unique_names(context.plan(factor(relation, usage)?)?)?;
    let time = column(time, &input, context, name)?;
    let mut literal = |arg: &ast::Expr| context.sql_to_expr(arg.clone(), &DFSchema::empty());
    let mut long = |arg: &ast::Expr| length(arg, literal(arg)?, name);
    let (window, more) = match (name, rest) {
        ("tumble", [size, more @ ..]) => (Window::Tumble { size: long(size)? }, more),
        ("hop", [slide, size, more @ ..]) => (Window::Hop { slide: long(slide)?, size: long(size)? }, more),
        ("cumulate", [step, size, more @ ..]) => {
            (Window::Cumulate { step: long(step)?, size: long(size)? }, more)
        }
        ("session", [gap, key @ ..]) => {
            let gap = long(gap)?;
            let key = key.iter().map(|k| column(k, &input, context, name)).collect::<Result<_>>()?;
            (Window::Session { gap, key }, &[][..])
        }
        _ => return plan_err!("{name}: these are not its arguments; write {usage}"),
    };
    let request = Request { window, place: place(more, named, context, &signature)? };
    for new in [START, END] {
        if input.schema().index_of_column_by_name(None, new).is_some() {
            return plan_err!("{name}: there is a column {new:?} already; give it another name first");
        }
    }
    match properties(&input)?.time {
        Some(_) => stream::with_windows(input, &time, &request),
        None => table::with_windows(input, &time, &request),
    }
}
