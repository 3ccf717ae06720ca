//! `any` and `all` of a subquery.
//!
//! `x = any (q)` is `x in (q)`, `x <> all (q)` is `x not in (q)`. Of the others `any` is
//! `exists (select 1 from (q) as t (v) where x < v)`, and `all` says that nothing of `q` speaks against it. `(a, b) in (q)`
//! is said in the same way.

use super::nested;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query};

/// The names of the subquery and of its column: no query of a person has them.
const TABLE: &str = "__quantified";
const COLUMN: &str = "__quantified_value";

/// Says it with `in` and `exists`. What is not about a subquery stays as it is.
pub(super) fn plain(expr: &mut Expr) {
    let (left, op, right, any) = match &*expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, true),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, false),
        _ => return,
    };
    let Some(subquery) = subquery(right) else { return };
    let said = match (op, any) {
        (BinaryOperator::Eq, true) => Some(Expr::InSubquery {
            expr: left.clone(),
            subquery: Box::new(subquery.clone()),
            negated: false,
        }),
        (BinaryOperator::NotEq, false) => {
            Some(Expr::InSubquery { expr: left.clone(), subquery: Box::new(subquery.clone()), negated: true })
        }
        _ => exists(left, op, subquery, any),
    };
    if let Some(said) = said {
        *expr = Expr::Nested(Box::new(said));
    }
}

fn subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery(inner),
        _ => None,
    }
}

fn exists(left: &Expr, op: &BinaryOperator, subquery: &Query, any: bool) -> Option<Expr> {
    let left = nested(left.clone());
    let compared = format!("{left} {op} {TABLE}.{COLUMN}");
    let (negated, condition) =
        if any { ("", compared) } else { ("not ", format!("({compared}) is not true")) };
    let text = format!(
        "select {negated}exists (select 1 from ({subquery}) as {TABLE} ({COLUMN}) where {condition})"
    );
    // The text is made of what was parsed before; it is read back only to have it as a tree.
    super::first_value(&crate::dialect::parse_query(&text).ok()?)
}

/// Says `(a, b) in (q)` with `exists`: true if one row is the same, null if one may be, and else false.
pub(super) fn rows(expr: &mut Expr) {
    let Some(Rows { same, any, negated }) = Rows::of(expr) else { return };
    let maybe = any(&format!("({same}) is null"));
    let text = format!("({} or case when {maybe} then null else false end)", any(&same));
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
            let Some(Rows { same, any, negated }) = Rows::of(expr) else { return };
            let text = match negated {
                false => any(&same),
                true => format!("not {}", any(&format!("({same}) is not false"))),
            };
            *expr = read(expr, &text);
        }
    }
}

/// What is asked by `(a, b) in (q)`.
struct Rows<F> {
    /// That a row of `q` is the same.
    same: String,
    /// That there is a row of `q` of which something holds.
    any: F,
    negated: bool,
}

impl Rows<()> {
    fn of(expr: &Expr) -> Option<Rows<impl Fn(&str) -> String + use<>>> {
        let Expr::InSubquery { expr: left, subquery, negated } = expr else { return None };
        let Expr::Tuple(values) = left.as_ref() else { return None };
        let columns: Vec<String> = (0..values.len()).map(|at| format!("{COLUMN}_{at}")).collect();
        let same = values
            .iter()
            .zip(&columns)
            .map(|(value, column)| format!("{} = {TABLE}.{column}", nested(value.clone())));
        let same = same.collect::<Vec<_>>().join(" and ");
        let rows = format!("({subquery}) as {TABLE} ({})", columns.join(", "));
        let any = move |condition: &str| format!("exists (select 1 from {rows} where {condition})");
        Some(Rows { same, any, negated: *negated })
    }
}

/// The text as a tree; what cannot be read back stays as it was.
fn read(expr: &Expr, text: &str) -> Expr {
    let query = crate::dialect::parse_query(&format!("select {text}"));
    match query.ok().and_then(|query| super::first_value(&query)) {
        Some(said) => Expr::Nested(Box::new(said)),
        None => expr.clone(),
    }
}
