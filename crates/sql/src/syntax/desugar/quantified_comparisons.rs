//! `any` and `all` of a subquery or a list.
//!
//! `x = any (q)` is `x in (q)`, and `x <> all (q)` is `x not in (q)`. Otherwise `x < any (q)` is
//! `exists (select 1 from (q) as t (v) where x < v)`, or null if the comparison is null for a row, and `all`
//! is the negation of `any` of the opposite. `(a, b) in (q)` is rewritten in the same way, and
//! `x < any (list)` by functions of lists: it is null if a null in the list or `x` leaves it open. As in
//! DuckDB, a null list has no values.

use super::parse_expr;
use crate::syntax::ast::nested;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query};

/// The reserved names of the subquery and of its columns.
const TABLE: &str = "__quantified";
/// The prefix of the names of its columns.
const COLUMN: &str = "__quantified_value";

/// Rewrites `any` and `all`, with `in` where that is the same.
pub(super) fn desugar(expr: &mut Expr) {
    let (left, right, negated) = match &*expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if subquery(right).is_none() => {
            return compare_with_list(expr);
        }
        _ => return rows(expr),
    };
    let Some(query) = subquery(right) else {
        *expr = parse_or_keep(expr, &in_list(left, right, negated));
        return;
    };
    let subquery = Box::new(query.clone());
    *expr = Expr::Nested(Box::new(Expr::InSubquery { expr: left.clone(), subquery, negated }));
}

/// `x = any (list)`, or negated `x <> all (list)`.
fn in_list(value: &Expr, list: &Expr, negated: bool) -> String {
    let (value, list) = (nested(value.clone()), nested(list.clone()));
    three_valued(&value, &list, &format!("array_has({list}, {value})"), !negated)
}

/// `x < any (list)`, by the least or the greatest value of the list.
fn compare_with_list(expr: &mut Expr) {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let (Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right }) = &*expr
    else {
        return;
    };
    let (value, list) = (nested(left.as_ref().clone()), nested(right.as_ref().clone()));
    let is_any = matches!(expr, Expr::AnyOp { .. });
    if list.to_string().eq_ignore_ascii_case("null") {
        // The functions below do not take an untyped null.
        *expr = parse_or_keep(expr, &(!is_any).to_string());
        return;
    }
    let least = format!("{value} {compare_op} array_min({list})");
    let greatest = format!("{value} {compare_op} array_max({list})");
    let holds = match (compare_op, is_any) {
        (Lt | LtEq, true) | (Gt | GtEq, false) => greatest,
        (Lt | LtEq, false) | (Gt | GtEq, true) => least,
        (NotEq, true) => format!("({least} or {greatest})"),
        (Eq, false) => format!("({least} and {greatest})"),
        // Other operators are refused later.
        _ => return,
    };
    let decides = if is_any { holds } else { format!("not ({holds})") };
    *expr = parse_or_keep(expr, &three_valued(&value, &list, &decides, is_any));
}

/// The answer if the condition `decides` it; otherwise null if there is a null, and else the opposite answer.
fn three_valued(value: &Expr, list: &Expr, decides: &str, answer: bool) -> String {
    format!(
        "case when coalesce(cardinality({list}), 0) = 0 then {no} when {value} is null then null \
         when {decides} then {answer} when list_count({list}) < cardinality({list}) then null else {no} end",
        no = !answer
    )
}

/// The subquery that an expression is.
fn subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery(inner),
        _ => None,
    }
}

/// Rewrites a comparison with rows by `exists`: true if it is true for a row, else null if it is null for
/// one, else false.
pub(super) fn rows(expr: &mut Expr) {
    let Some(Rows { holds, any, negated }) = Rows::of(expr) else { return };
    let maybe = any(&format!("({holds}) is null"));
    let text = format!("({} or case when {maybe} then null else false end)", any(&holds));
    *expr = parse_or_keep(expr, &if negated { format!("not {text}") } else { text });
}

/// The same in a condition, where null acts as false, under `and` and `or`.
pub(super) fn rows_in_condition(condition: &mut Expr) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            rows_in_condition(left);
            rows_in_condition(right);
        }
        Expr::Nested(inner) => rows_in_condition(inner),
        expr => {
            let Some(Rows { holds, any, negated }) = Rows::of(expr) else { return };
            let text = match negated {
                false => any(&holds),
                true => format!("not {}", any(&format!("({holds}) is not false"))),
            };
            *expr = parse_or_keep(expr, &text);
        }
    }
}

/// A comparison with the rows of a subquery `q`.
struct Rows<F> {
    /// The comparison with one row.
    holds: String,
    /// The condition that a condition holds for some row.
    any: F,
    /// Whether it has to hold for no row.
    negated: bool,
}

impl Rows<()> {
    /// That of `(a, b) in (q)`, `x < any (q)` and `x < all (q)`.
    fn of(expr: &Expr) -> Option<Rows<impl Fn(&str) -> String + use<>>> {
        let (holds, query, width, negated) = match expr {
            Expr::InSubquery { expr: left, subquery, negated } => {
                let Expr::Tuple(values) = left.as_ref() else { return None };
                let same = values.iter().enumerate();
                let same = same.map(|(at, value)| format!("{} = {}", nested(value.clone()), column(at)));
                (same.collect::<Vec<_>>().join(" and "), subquery.as_ref(), values.len(), *negated)
            }
            // These become `in`.
            Expr::AnyOp { compare_op: BinaryOperator::Eq, .. }
            | Expr::AllOp { compare_op: BinaryOperator::NotEq, .. } => return None,
            Expr::AnyOp { left, compare_op, right, .. } => {
                let compared = format!("{} {compare_op} {}", nested(left.as_ref().clone()), column(0));
                (compared, subquery(right)?, 1, false)
            }
            Expr::AllOp { left, compare_op, right } => {
                let compared = format!("{} {compare_op} {}", nested(left.as_ref().clone()), column(0));
                (format!("not ({compared})"), subquery(right)?, 1, true)
            }
            _ => return None,
        };
        let columns: Vec<String> = (0..width).map(|at| format!("{COLUMN}_{at}")).collect();
        let rows = format!("({query}) as {TABLE} ({})", columns.join(", "));
        let any = move |condition: &str| format!("exists (select 1 from {rows} where {condition})");
        Some(Rows { holds, any, negated })
    }
}

/// A column of the subquery, by its number.
fn column(at: usize) -> String {
    format!("{TABLE}.{COLUMN}_{at}")
}

/// The parsed text; the expression itself if it cannot be parsed.
fn parse_or_keep(expr: &Expr, text: &str) -> Expr {
    match parse_expr(text) {
        Some(parsed) => Expr::Nested(Box::new(parsed)),
        None => expr.clone(),
    }
}
