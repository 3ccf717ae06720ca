//! Table functions over rows with time: the call, and its arguments.

use super::durations;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, TableAlias, TableFactor, Value,
};
use std::sync::Arc;
use whimbrel_plan::Duration;

/// A call of a table function.
pub(super) struct Call {
    /// The function.
    pub function: &'static str,
    /// Its arguments.
    pub args: Vec<FunctionArg>,
    alias: Option<TableAlias>,
}

impl Call {
    /// The call that a relation is, of one of these functions.
    pub fn of(relation: &TableFactor, functions: &[&'static str]) -> Option<Call> {
        let (name, args, alias) = match relation {
            TableFactor::Table { name, args: Some(args), alias, .. } => (name, args.args.clone(), alias),
            TableFactor::Function { name, args, alias, .. } => (name, args.clone(), alias),
            // Flink's `table(tumble(…))`.
            TableFactor::TableFunction { expr: ast::Expr::Function(function), alias } => match &function.args
            {
                FunctionArguments::List(list) => (&function.name, list.args.clone(), alias),
                _ => return None,
            },
            _ => return None,
        };
        let name = name.to_string();
        let function = functions.iter().find(|known| name.eq_ignore_ascii_case(known))?;
        Some(Call { function, args, alias: alias.clone() })
    }

    /// The plan of the call as a relation. Without an alias it has the name of the function, by which `using`
    /// finds its columns.
    pub fn relation(self, plan: LogicalPlan) -> RelationPlanning {
        let alias = self.alias.unwrap_or_else(|| TableAlias {
            explicit: false,
            name: ast::Ident::new(self.function),
            columns: vec![],
            at: None,
        });
        RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias))))
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
    pub choices: &'static [&'static str],
}

/// The arguments of a call.
pub(super) struct Arguments {
    /// Those that are needed, in their order, and those that follow without a name.
    pub places: Vec<ast::Expr>,
    /// Those that may be left out, and have names.
    pub named: Vec<(&'static str, ast::Expr)>,
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
                    if let Some(choice) = choices.iter().find(|choice| is_name(choice)) {
                        if named.iter().any(|(other, _)| other == choice) {
                            return plan_err!("{function}: {choice} is given twice; write {usage}");
                        }
                        named.push((*choice, expr));
                        continue;
                    }
                    let Some(place) = names.iter().position(|known| is_name(known)) else {
                        let all: Vec<&str> = names.iter().chain(*choices).copied().collect();
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

/// The value of an argument that is the same for all rows: a literal, or computed of literals.
///
/// # Errors
/// `Plan` if it is not.
pub(super) fn constant(
    arg: &ast::Expr,
    context: &mut dyn RelationPlannerContext,
    name: &str,
) -> Result<ScalarValue> {
    let empty = Arc::new(DFSchema::empty());
    let value = context.sql_to_expr(arg.clone(), &empty)?;
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(empty.clone()).build());
    match simplifier.simplify(simplifier.coerce(value, &empty)?)? {
        Expr::Literal(value, _) => Ok(value),
        _ => plan_err!("{name}: {arg} is not the same for all rows; write a literal"),
    }
}
