//! The windows of time as table functions: `tumble`, `hop`, `session`, `cumulate`.
//!
//! `from tumble(clicks, time, interval '5 minutes')` gives every row of `clicks` with the columns `window_start`
//! and `window_end` of the window that it is in, once for every such window. A query that groups by them
//! aggregates windows. Flink's names of arguments are known, `tumble(data => table clicks, timecol => descriptor(time), size
//! => …)`, and its `session(table clicks partition by item, …)`.
//!
//! Over a table that is what a relation can say, row by row (`table`). Over a stream with time it is said by the
//! nodes that the fluent builder uses (`stream`): a row lives from the end of its window on, when what is said
//! of the window is final.

mod result;
mod stream;
mod table;

pub(crate) use result::told_once;
pub(crate) use stream::{is_cumulate, is_session};

use crate::optimize::plain;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, TableAlias, TableFactor, Value,
};
use whimbrel_plan::{Duration, properties};

/// The names of the functions.
pub(crate) const NAMES: [&str; 4] = ["tumble", "hop", "session", "cumulate"];

/// The first instant of a row's window.
const START: &str = "window_start";

/// The first instant after it.
pub(crate) const END: &str = "window_end";

/// A window as it was asked for.
#[derive(Debug, Clone)]
enum Window {
    Tumble { size: Duration },
    Hop { slide: Duration, size: Duration },
    Cumulate { step: Duration, size: Duration },
    Session { gap: Duration, key: Vec<String> },
}

/// Plans the window functions; all other relations are DataFusion's.
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
        let plan = windowed(name, args, context)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

/// The function that is called, its arguments, and what the result is called, if this is a window function.
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
    let known = NAMES.into_iter().find(|known| name.to_string().eq_ignore_ascii_case(known))?;
    Some((known, args, alias.clone()))
}

fn windowed(
    name: &'static str,
    args: Vec<FunctionArg>,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let (usage, names): (&str, &[&str]) = match name {
        "tumble" => ("tumble(table, time, size)", &["data", "timecol", "size"]),
        "hop" => ("hop(table, time, slide, size)", &["data", "timecol", "slide", "size"]),
        "cumulate" => ("cumulate(table, time, step, size)", &["data", "timecol", "step", "size"]),
        _ => ("session(table, time, gap, key…)", &["data", "timecol", "gap"]),
    };
    let given = in_places(name, args, names, usage)?;
    let [relation, time, rest @ ..] = given.as_slice() else {
        return plan_err!("{name}: an argument is missing; write {usage}");
    };
    let input = plain(context.plan(factor(relation, usage)?)?)?;
    let time = column(time, &input, context, name)?;
    let zone = zone(&input, &time);
    let mut grid = |arg: &ast::Expr| {
        let expr = context.sql_to_expr(arg.clone(), &DFSchema::empty())?;
        match &zone {
            Some(zone) if of_days(&expr) => plan_err!(
                "{name}: {time} is in the zone {zone}, and days of windows begin at midnight in UTC: write interval '24' \
                 hour for those, or make windows of a table with {time} at time zone '{zone}' as its time"
            ),
            _ => length(arg, expr, name),
        }
    };
    let window = match (name, rest) {
        ("tumble", [size]) => Window::Tumble { size: grid(size)? },
        ("hop", [slide, size]) => Window::Hop { slide: grid(slide)?, size: grid(size)? },
        ("cumulate", [step, size]) => Window::Cumulate { step: grid(step)?, size: grid(size)? },
        ("session", [gap, key @ ..]) => {
            let key = key.iter().map(|k| column(k, &input, context, name)).collect::<Result<_>>()?;
            let expr = context.sql_to_expr(gap.clone(), &DFSchema::empty())?;
            Window::Session { gap: length(gap, expr, name)?, key }
        }
        _ => return plan_err!("{name}: these are not its arguments; write {usage}"),
    };
    for new in [START, END] {
        if input.schema().index_of_column_by_name(None, new).is_some() {
            return plan_err!("{name}: there is a column {new:?} already; give it another name first");
        }
    }
    match properties(&input)?.time {
        Some(_) => stream::windowed(input, &time, &window),
        None => table::windowed(input, &time, &window),
    }
}

/// The arguments in the places that their names say, Flink's; those without a name follow what is before them.
fn in_places(function: &str, args: Vec<FunctionArg>, names: &[&str], usage: &str) -> Result<Vec<ast::Expr>> {
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

/// The zone of a time, if its days do not begin where those of UTC do.
fn zone(input: &LogicalPlan, time: &str) -> Option<String> {
    const UTC: [&str; 6] = ["UTC", "+00:00", "+00", "Etc/UTC", "GMT", "Z"];
    match input.schema().field_with_unqualified_name(time).ok()?.data_type() {
        DataType::Timestamp(_, Some(zone)) => (!UTC.contains(&zone.as_ref())).then(|| zone.to_string()),
        _ => None,
    }
}

/// Whether a length is one of days.
fn of_days(length: &Expr) -> bool {
    match length {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) => length.days != 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(length)), _) => length.days != 0,
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => {
            let text = text.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
            ["d", "w", "day", "days", "week", "weeks"].iter().any(|unit| {
                text.strip_suffix(unit)
                    .is_some_and(|number| !number.ends_with(|c: char| c.is_ascii_alphabetic()))
            })
        }
        _ => false,
    }
}

/// `interval '5' minute`, `'5 minutes'`, or on a logical clock `5`.
fn length(arg: &ast::Expr, expr: Expr, name: &str) -> Result<Duration> {
    let no = || {
        plan_err!("{name}: {arg} is no length of time; write interval '5' minute, or on a logical clock 5")
    };
    let Expr::Literal(value, _) = expr else { return no() };
    match value {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => match interval.months {
            0 => Ok(Duration::Nanos(
                i128::from(interval.days) * 86_400_000_000_000 + i128::from(interval.nanoseconds),
            )),
            _ => plan_err!("{name}: months and years differ in length; give days, hours or minutes"),
        },
        ScalarValue::IntervalDayTime(Some(interval)) => Ok(Duration::Nanos(
            i128::from(interval.days) * 86_400_000_000_000 + i128::from(interval.milliseconds) * 1_000_000,
        )),
        ScalarValue::Int64(Some(ticks)) => Ok(Duration::Ticks(ticks)),
        ScalarValue::Utf8(Some(text)) => Ok(crate::lengths::length(&text)),
        _ => no(),
    }
}

/// Lengths in ticks, of which the larger has to be a multiple of the smaller; how often it fits.
fn fits(name: &str, small: (&str, i64), large: (&str, i64)) -> Result<i64> {
    const MANY: i64 = 10_000;
    if large.1 % small.1 != 0 {
        return plan_err!("{name}: the {} has to be a multiple of the {}", large.0, small.0);
    }
    match large.1 / small.1 {
        n if n > MANY => plan_err!("{name}: every row would be in {n} windows; at most {MANY} are possible"),
        n => Ok(n),
    }
}
