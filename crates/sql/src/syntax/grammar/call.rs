//! Expressions, above all calls of functions.
//!
//! ```sql
//! select abs(distinct x) from t;    -- refused: only aggregates have distinct
//! select a like any ('x%') from t;  -- refused: write a like 'x%' or …
//! ```

use super::{Checked, absent, ordering, refuse, result, visited};
use crate::functions::is_scalar;
use datafusion::common::{DataFusionError, Result};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Array, CaseWhen, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Interval, LambdaFunction, Spanned,
    TypedString, Visitor, WindowType,
};
use std::ops::ControlFlow;

/// What DataFusion's planner takes, or refuses by itself, is passed over here; it takes these apart as well.
pub(super) fn check_expression(expr: &Expr) -> Checked {
    match expr {
        Expr::Function(call) => function(call),
        Expr::Extract { field: _, syntax: _, expr: _ } => ControlFlow::Continue(()),
        Expr::TypedString(TypedString { data_type: _, value: _, uses_odbc_syntax: _ }) => {
            ControlFlow::Continue(())
        }
        Expr::Substring { expr: _, substring_from: _, substring_for: _, special: _, shorthand: _ } => {
            ControlFlow::Continue(())
        }
        Expr::Like { negated: _, any, expr: _, pattern: _, escape_char: _ }
        | Expr::ILike { negated: _, any, expr: _, pattern: _, escape_char: _ } => {
            absent(any, "like any is not there: write a like 'x%' or a like 'y%'", expr)
        }
        Expr::SimilarTo { negated: _, expr: _, pattern: _, escape_char: _ }
        | Expr::InList { expr: _, list: _, negated: _ }
        | Expr::InSubquery { expr: _, subquery: _, negated: _ }
        | Expr::AnyOp { left: _, compare_op: _, right: _, is_some: _ }
        | Expr::AllOp { left: _, compare_op: _, right: _ }
        | Expr::Cast { kind: _, expr: _, data_type: _, array: _, format: _ }
        | Expr::CompoundFieldAccess { root: _, access_chain: _ }
        | Expr::Exists { subquery: _, negated: _ }
        | Expr::BinaryOp { left: _, op: _, right: _ }
        | Expr::UnaryOp { op: _, expr: _ } => ControlFlow::Continue(()),
        Expr::Array(Array { elem: _, named: _ }) => ControlFlow::Continue(()),
        Expr::Lambda(LambdaFunction { params: _, body: _, syntax: _ }) => ControlFlow::Continue(()),
        Expr::Interval(Interval {
            value: _,
            leading_field: _,
            leading_precision,
            last_field,
            fractional_seconds_precision,
        }) => {
            absent(last_field, "an interval has one unit: interval '1 day 2 hours'", expr)?;
            let digits = "an interval has no number of digits: leave it out";
            absent(leading_precision, digits, expr)?;
            absent(fractional_seconds_precision, digits, expr)
        }
        Expr::Case { case_token: _, end_token: _, operand: _, conditions, else_result: _ } => {
            conditions.iter().try_for_each(|CaseWhen { condition: _, result: _ }| ControlFlow::Continue(()))
        }
        Expr::OuterJoin(_) => refuse("(+) is not there: write left join", expr),
        Expr::Prior(_) => refuse("connect by is not there: write with recursive", expr),
        Expr::MatchAgainst { .. } => refuse("match … against is not there: write like", expr),
        _ => ControlFlow::Continue(()),
    }
}

/// A call of a function and its clauses.
fn function(call: &Function) -> Checked {
    let Function {
        name,
        uses_odbc_syntax: _,
        parameters,
        args,
        filter: _,
        null_treatment: _,
        over,
        within_group,
    } = call;
    match parameters {
        FunctionArguments::None => {}
        _ => return refuse("a function has one list of arguments", call),
    }
    ordering::check_order_by(within_group)?;
    match over {
        Some(WindowType::WindowSpec(window)) => ordering::check_window(window)?,
        None | Some(WindowType::NamedWindow(_)) => {}
    }
    match args {
        FunctionArguments::None => ControlFlow::Continue(()),
        FunctionArguments::Subquery(_) if name.to_string().eq_ignore_ascii_case("array") => {
            ControlFlow::Continue(())
        }
        FunctionArguments::Subquery(_) => {
            refuse("write a query as a value in parentheses: f((select …))", call)
        }
        FunctionArguments::List(FunctionArgumentList { duplicate_treatment: _, args, clauses }) => {
            args.iter().try_for_each(|arg| argument(of(arg), call))?;
            clauses.iter().try_for_each(|clause| self::clause(clause, call))
        }
    }
}

/// The expression of an argument, with or without a name.
fn of(arg: &FunctionArg) -> &FunctionArgExpr {
    match arg {
        FunctionArg::Named { name: _, arg, operator: _ }
        | FunctionArg::ExprNamed { name: _, arg, operator: _ }
        | FunctionArg::Unnamed(arg) => arg,
    }
}

/// An argument: no wildcard with options.
pub(super) fn argument(arg: &FunctionArgExpr, around: &dyn Spanned) -> Checked {
    match arg {
        FunctionArgExpr::Expr(_) | FunctionArgExpr::QualifiedWildcard(_) | FunctionArgExpr::Wildcard => {
            ControlFlow::Continue(())
        }
        FunctionArgExpr::WildcardWithOptions(_) => {
            refuse("a star in a call has nothing behind it: write the columns", around)
        }
    }
}

/// A clause inside the parentheses of a call.
fn clause(clause: &FunctionArgumentClause, call: &Function) -> Checked {
    use FunctionArgumentClause as C;
    match clause {
        C::IgnoreOrRespectNulls(_) => ControlFlow::Continue(()),
        C::OrderBy(exprs) => ordering::check_order_by(exprs),
        C::Limit(_) => refuse("a call has no limit: write array_agg(…)[1:n]", call),
        C::OnOverflow(_) => refuse("a text has no greatest length here: leave out on overflow", call),
        C::Having(_) => refuse("a call has no having: write arg_min(a, b) or arg_max(a, b)", call),
        C::Separator(_) => refuse("write the separator as an argument: string_agg(a, ',')", call),
        C::JsonNullClause(_) | C::JsonReturningClause(_) => {
            refuse("a call of json has nothing behind its arguments here", call)
        }
    }
}

/// Refuses what stands around calls of functions that do not take it: DataFusion's planner would pass over
/// it. Functions have the names that they have here.
///
/// # Errors
/// `Plan`, with the place in the text where it is known.
pub(in crate::syntax) fn check_calls(statement: &Statement) -> Result<()> {
    result(visited(statement, &mut Calls))
}

/// Checks the calls of scalar functions.
struct Calls;

impl Visitor for Calls {
    type Break = Box<DataFusionError>;

    fn pre_visit_expr(&mut self, expr: &Expr) -> Checked {
        match expr {
            Expr::Function(call) => around(call),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Window functions that are no aggregates have each row once.
const OF_EACH_ROW: [&str; 11] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

/// Refuses `distinct` where it has nothing to compare, or nothing reads it.
fn distinct(name: &str, list: &FunctionArgumentList, call: &Function) -> Checked {
    let star = |arg: &FunctionArg| {
        matches!(of(arg), FunctionArgExpr::Wildcard | FunctionArgExpr::QualifiedWildcard(_))
    };
    if list.duplicate_treatment != Some(DuplicateTreatment::Distinct) {
        ControlFlow::Continue(())
    } else if list.args.iter().any(star) {
        refuse(
            &format!(
                "{name}(distinct *) is not there: write select count(*) from (select distinct * from …)"
            ),
            call,
        )
    } else if call.over.is_some() && OF_EACH_ROW.contains(&name) {
        refuse(&format!("{name} over a window takes no distinct: leave it out"), call)
    } else {
        ControlFlow::Continue(())
    }
}

/// What stands around a call of a function: of rows, only aggregates and window functions have it.
fn around(call: &Function) -> Checked {
    let name = call.name.to_string().to_ascii_lowercase();
    let list = match &call.args {
        FunctionArguments::List(list) => Some(list),
        _ => None,
    };
    if let Some(list) = list {
        distinct(&name, list, call)?;
    }
    if !is_scalar(&name) {
        return ControlFlow::Continue(());
    }
    let clause = |wanted: fn(&FunctionArgumentClause) -> bool| {
        list.is_some_and(|list| list.clauses.iter().any(wanted))
    };
    let ordered = clause(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
    let nulls = clause(|clause| matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_)));
    let parts = [
        (list.is_some_and(|list| list.duplicate_treatment.is_some()), "distinct"),
        (ordered, "order by"),
        (nulls || call.null_treatment.is_some(), "ignore nulls"),
        (call.filter.is_some(), "filter"),
        (call.over.is_some(), "over"),
        (!call.within_group.is_empty(), "within group"),
    ];
    match parts.into_iter().find(|(there, _)| *there) {
        Some((_, part)) => refuse(
            &format!("{name} is of the values of one row and takes no {part}: only aggregates do"),
            call,
        ),
        None => ControlFlow::Continue(()),
    }
}
