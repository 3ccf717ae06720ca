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
//! Days and months are those of the column's zone, or of the argument `zone`.

mod grid;
mod result;
mod stream;
mod table;

pub(crate) use result::lift_window_columns;
pub(super) use stream::check_time_column;

use super::durations;
use crate::columns::with_unique_names;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, TableAlias, TableFactor, Value,
};
use whimbrel_plan::calendar::check_zone;
use whimbrel_plan::{Duration, properties};

use super::window_nodes::{END, START};
use crate::syntax::WINDOW_FUNCTIONS;

/// The arguments of a window function: the window, and the zone of its days, if one is named.
#[derive(Debug)]
struct Request {
    /// The window.
    window: Window,
    /// The zone of its days and months.
    zone: Option<String>,
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
        let Some((name, args, alias)) = call(&relation) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = plan_windows(name, args, context)?;
        // Without a name of its own it has that of the function, by which `using` finds its columns.
        let alias = alias.unwrap_or_else(|| TableAlias {
            explicit: false,
            name: ast::Ident::new(name),
            columns: vec![],
            at: None,
        });
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))))
    }
}

/// The window function that a relation calls, its arguments, and its alias.
fn call(relation: &TableFactor) -> Option<(&'static str, Vec<FunctionArg>, Option<TableAlias>)> {
    let (name, args, alias) = match relation {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, args.args.clone(), alias),
        TableFactor::Function { name, args, alias, .. } => (name, args.clone(), alias),
        // Flink's `table(tumble(…))`.
        TableFactor::TableFunction { expr: ast::Expr::Function(function), alias } => match &function.args {
            FunctionArguments::List(list) => (&function.name, list.args.clone(), alias),
            _ => return None,
        },
        _ => return None,
    };
    let known = WINDOW_FUNCTIONS.into_iter().find(|known| name.to_string().eq_ignore_ascii_case(known))?;
    Some((known, args, alias.clone()))
}

/// The rows of a table or a stream with the columns of their windows.
fn plan_windows(
    name: &'static str,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let (usage, names): (&str, &[&str]) = match name {
        "tumble" => ("tumble(table, time, size)", &["data", "timecol", "size", "zone"]),
        "hop" => ("hop(table, time, slide, size)", &["data", "timecol", "slide", "size", "zone"]),
        "cumulate" => ("cumulate(table, time, step, size)", &["data", "timecol", "step", "size", "zone"]),
        _ => ("session(table, time, gap, key…)", &["data", "timecol", "gap"]),
    };
    let given = by_position(name, args, names, usage)?;
    let [relation, time, rest @ ..] = given.as_slice() else {
        return plan_err!("{name}: an argument is missing; write {usage}");
    };
    let input = with_unique_names(context.plan(factor(relation, usage)?)?)?;
    let time = column(time, &input, context, name)?;
    let mut literal = |arg: &ast::Expr| context.sql_to_expr(arg.clone(), &DFSchema::empty());
    let mut long = |arg: &ast::Expr| length(arg, literal(arg)?, name);
    let (window, zone) = match (name, rest) {
        ("tumble", [size, zone @ ..]) => (Window::Tumble { size: long(size)? }, zone),
        ("hop", [slide, size, zone @ ..]) => (Window::Hop { slide: long(slide)?, size: long(size)? }, zone),
        ("cumulate", [step, size, zone @ ..]) => {
            (Window::Cumulate { step: long(step)?, size: long(size)? }, zone)
        }
        ("session", [gap, key @ ..]) => {
            let gap = long(gap)?;
            let key = key.iter().map(|k| column(k, &input, context, name)).collect::<Result<_>>()?;
            (Window::Session { gap, key }, &[][..])
        }
        _ => return plan_err!("{name}: these are not its arguments; write {usage}"),
    };
    let zone = match zone {
        [] => None,
        [zone] => Some(zone_name(zone, context.sql_to_expr(zone.clone(), &DFSchema::empty())?, name)?),
        _ => return plan_err!("{name}: these are not its arguments; write {usage}"),
    };
    let request = Request { window, zone };
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

/// The arguments in the places that their names say, Flink's; those without a name follow what is before
/// them.
fn by_position(
    function: &str,
    args: Vec<FunctionArg>,
    names: &[&str],
    usage: &str,
) -> Result<Vec<ast::Expr>> {
    let mut places: Vec<Option<ast::Expr>> = Vec::new();
    for arg in args {
        let (place, expr) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => (places.len(), expr),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                let known = names.iter().position(|known| name.value.eq_ignore_ascii_case(known));
                let Some(place) = known else {
                    return plan_err!(
                        "{function}: there is no argument {name}; write {usage}, or with the names {}",
                        names.join(", ")
                    );
                };
                (place, expr)
            }
            other => return plan_err!("{function}: {other} is no argument; write {usage}"),
        };
        if places.len() <= place {
            places.resize(place + 1, None);
        }
        if places[place].replace(expr).is_some() {
            return plan_err!("{function}: {} is given twice; write {usage}", names[place]);
        }
    }
    match places.into_iter().collect() {
        Some(places) => Ok(places),
        None => plan_err!("{function}: an argument is missing; write {usage}"),
    }
}

/// The relation that an argument names: a table, a file, a query in parentheses, or another window.
fn factor(relation: &ast::Expr, usage: &str) -> Result<TableFactor> {
    let table = |name: ObjectName| TableFactor::Table {
        name,
        alias: None,
        args: None,
        with_hints: vec![],
        version: None,
        with_ordinality: false,
        partitions: vec![],
        json_path: None,
        sample: None,
        index_hints: vec![],
    };
    Ok(match relation {
        ast::Expr::Identifier(name) => table(ObjectName::from(vec![name.clone()])),
        ast::Expr::CompoundIdentifier(parts) => table(ObjectName::from(parts.clone())),
        ast::Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(path) => {
                table(ObjectName::from(vec![ast::Ident::with_quote('\'', path.clone())]))
            }
            other => return plan_err!("{other} is no table; write {usage}"),
        },
        ast::Expr::Subquery(query) => {
            TableFactor::Derived { lateral: false, subquery: query.clone(), alias: None, sample: None }
        }
        ast::Expr::Function(function) if matches!(function.args, FunctionArguments::List(_)) => {
            TableFactor::TableFunction { expr: relation.clone(), alias: None }
        }
        other => return plan_err!("{other} is no table; write {usage}"),
    })
}

/// The name of the column that an argument is.
fn column(
    arg: &ast::Expr,
    input: &LogicalPlan,
    context: &mut dyn RelationPlannerContext,
    name: &str,
) -> Result<String> {
    match context.sql_to_expr(arg.clone(), input.schema())? {
        Expr::Column(column) => Ok(column.name),
        _ => plan_err!("{name}: {arg} is no column of the table"),
    }
}

/// `'America/New_York'`.
fn zone_name(arg: &ast::Expr, expr: Expr, name: &str) -> Result<String> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(zone)), _) => {
            check_zone(&zone)?;
            Ok(zone)
        }
        _ => plan_err!(
            "{name}: {arg} is no time zone; write its name, 'America/New_York' (windows have no offset)"
        ),
    }
}

/// `interval '5' minute`, `'5 minutes'`, or on a logical clock `5`.
pub(super) fn length(arg: &ast::Expr, expr: Expr, name: &str) -> Result<Duration> {
    let no = || {
        plan_err!("{name}: {arg} is no length of time; write interval '5' minute, or on a logical clock 5")
    };
    let Expr::Literal(value, _) = expr else { return no() };
    match value {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => Ok(Duration::Interval {
            months: interval.months,
            days: interval.days,
            nanos: interval.nanoseconds,
        }),
        ScalarValue::IntervalDayTime(Some(interval)) => Ok(Duration::Interval {
            months: 0,
            days: interval.days,
            nanos: i64::from(interval.milliseconds) * 1_000_000,
        }),
        ScalarValue::IntervalYearMonth(Some(months)) => Ok(Duration::Interval { months, days: 0, nanos: 0 }),
        ScalarValue::Int64(Some(ticks)) => Ok(Duration::Ticks(ticks)),
        ScalarValue::Utf8(Some(text)) => Ok(durations::duration(&text)),
        _ => no(),
    }
}
