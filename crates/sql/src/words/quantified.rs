//! `any` and `all` of a subquery.
//!
//! `x = any (q)` is `x in (q)`, `x <> all (q)` is `x not in (q)`. Of the others `x < any (q)` is
//! `exists (select 1 from (q) as t (v) where x < v)`, or null if that is null of a row, and `all` says that nothing of `q`
//! speaks against it. `(a, b) in (q)` is said in the same way.

use super::nested;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query};

/// The names of the subquery and of its column: no query of a person has them.
const TABLE: &str = "__quantified";
const COLUMN: &str = "__quantified_value";

/// Says it with `in`, where it is that.
pub(super) fn plain(expr: &mut Expr) {
    let (left, right, negated) = match &*expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
        _ => return rows(expr),
    };
    let Some(query) = subquery(right) else { return };
    let subquery = Box::new(query.clone());
    *expr = Expr::Nested(Box::new(Expr::InSubquery { expr: left.clone(), subquery, negated }));
}

fn subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery(inner),
        _ => None,
    }
}

/// Says it with `exists`: true if it is true of a row, null if it is null of one, and else false.
pub(super) fn rows(expr: &mut Expr) {
    let Some(Rows { holds, any, negated }) = Rows::of(expr) else { return };
    let maybe = any(&format!("({holds}) is null"));
    let text = format!("({} or case when {maybe} then null else false end)", any(&holds));
    *expr = read(expr, &if negated { format!("not {text}") } else { text });
}

/// The same where it is a condition, in which a null is as good as a false, under `and` and `or`.
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
            *expr = read(expr, &text);
        }
    }
}

/// What is asked of the rows of a subquery `q`.
struct Rows<F> {
    /// What may hold of a row.
    holds: String,
    /// That there is a row of `q` of which something holds.
    any: F,
    /// Whether it is to hold of none.
    negated: bool,
}

impl Rows<()> {
    /// What `(a, b) in (q)`, `x < any (q)` and `x < all (q)` ask.
    fn of(expr: &Expr) -> Option<Rows<impl Fn(&str) -> String + use<>>> {
        let (holds, query, width, negated) = match expr {
            Expr::InSubquery { expr: left, subquery, negated } => {
                let Expr::Tuple(values) = left.as_ref() else { return None };
                let same = values.iter().enumerate();
                let same = same.map(|(at, value)| format!("{} = {}", nested(value.clone()), column(at)));
                (same.collect::<Vec<_>>().join(" and "), subquery.as_ref(), values.len(), *negated)
            }
            // These are said by `in`.
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

fn column(at: usize) -> String {
    format!("{TABLE}.{COLUMN}_{at}")
}

/// The text as a tree; what cannot be read back stays as it was.
fn read(expr: &Expr, text: &str) -> Expr {
    let query = crate::dialect::parse_query(&format!("select {text}"));
    match query.ok().and_then(|query| super::first_value(&query)) {
        Some(said) => Expr::Nested(Box::new(said)),
        None => expr.clone(),
    }
}
