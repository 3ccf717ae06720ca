//! The arguments of window functions.

use super::Place;
use crate::stream::durations;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, TableFactor, Value,
};
use whimbrel_plan::Duration;
use whimbrel_plan::calendar::check_zone;
use whimbrel_temporal::Closed;

/// Arguments that may be left out, and say where windows lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Offset,
    Zone,
    Closed,
}

impl Choice {
    pub const ALL: [Choice; 3] = [Choice::Offset, Choice::Zone, Choice::Closed];

    fn name(self) -> &'static str {
        match self {
            Choice::Offset => "offset",
            Choice::Zone => "zone",
            Choice::Closed => "closed",
        }
    }
}

/// How a function is called.
pub(super) struct Signature {
    /// Its name.
    pub function: &'static str,
    /// What to write.
    pub usage: &'static str,
    /// The names of the arguments that it needs.
    pub names: &'static [&'static str],
    /// What may be said besides.
    pub choices: &'static [Choice],
}

/// The arguments of a call.
pub(super) struct Arguments {
    /// Those that are needed, in their order, and those that follow without a name.
    pub places: Vec<ast::Expr>,
    /// Those that may be left out, and have names.
    pub named: Vec<(Choice, ast::Expr)>,
}

impl Arguments {
    /// The arguments in the places that their names say, Flink's; those without a name follow what is before
    /// them.
    ///
    /// # Errors
    /// `Plan` if there is no such argument, or one is missing, or given twice.
    pub fn of(args: Vec<FunctionArg>, signature: &Signature) -> Result<Arguments> {
        let Signature { function, usage, names, choices } = signature;
        let (mut places, mut named): (Vec<Option<ast::Expr>>, Vec<_>) = Default::default();
        for arg in args {
            let (place, expr) = match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => (places.len(), expr),
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                    let is_name = |known: &str| name.value.eq_ignore_ascii_case(known);
                    if let Some(choice) = choices.iter().find(|choice| is_name(choice.name())) {
                        named.push((*choice, expr));
                        continue;
                    }
                    let Some(place) = names.iter().position(|known| is_name(known)) else {
                        let choices = choices.iter().map(|choice| choice.name());
                        let all: Vec<&str> = names.iter().copied().chain(choices).collect();
                        return plan_err!(
                            "{function}: there is no argument {name}; write {usage}, or with the names {}",
                            all.join(", ")
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
            Some(places) => Ok(Arguments { places, named }),
            None => plan_err!("{function}: an argument is missing; write {usage}"),
        }
    }
}

/// Where windows lie, as these arguments say. Of those without a name, texts are zones, and others offsets.
pub(super) fn place(
    unnamed: &[ast::Expr],
    named: Vec<(Choice, ast::Expr)>,
    context: &mut dyn RelationPlannerContext,
    signature: &Signature,
) -> Result<Place> {
    let Signature { function, usage, .. } = signature;
    let unnamed = unnamed.iter().map(|arg| (None, arg.clone()));
    let named = named.into_iter().map(|(choice, arg)| (Some(choice), arg));
    let (mut place, mut given) = (Place::default(), Vec::new());
    for (choice, arg) in unnamed.chain(named) {
        let value = context.sql_to_expr(arg.clone(), &DFSchema::empty())?;
        let is_text = matches!(value, Expr::Literal(ScalarValue::Utf8(_), _));
        let choice = choice.unwrap_or(if is_text { Choice::Zone } else { Choice::Offset });
        if given.contains(&choice) {
            return plan_err!("{function}: {} is given twice; write {usage}", choice.name());
        }
        given.push(choice);
        match choice {
            Choice::Offset => place.offset = length(&arg, value, function)?,
            Choice::Zone => place.zone = Some(zone_name(&arg, value, function)?),
            Choice::Closed => place.closed = closed_side(&arg, value, function)?,
        }
    }
    Ok(place)
}

/// The relation that an argument names: a table, a file, a query in parentheses, or another window.
pub(super) fn factor(relation: &ast::Expr, usage: &str) -> Result<TableFactor> {
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
pub(super) fn column(
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
        _ => plan_err!("{name}: {arg} is no time zone; write its name, 'America/New_York'"),
    }
}

/// `'left'` or `'right'`.
fn closed_side(arg: &ast::Expr, expr: Expr, name: &str) -> Result<Closed> {
    let Expr::Literal(ScalarValue::Utf8(Some(side)), _) = expr else { return no_side(arg, name) };
    match side.to_ascii_lowercase().as_str() {
        "left" => Ok(Closed::Left),
        "right" => Ok(Closed::Right),
        _ => no_side(arg, name),
    }
}

fn no_side(arg: &ast::Expr, name: &str) -> Result<Closed> {
    plan_err!("{name}: windows are closed 'left', [start, end), or 'right', (start, end], not {arg}")
}

/// `interval '5' minute`, `'5 minutes'`, or on a logical clock `5`.
pub(in crate::stream) fn length(arg: &ast::Expr, expr: Expr, name: &str) -> Result<Duration> {
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
