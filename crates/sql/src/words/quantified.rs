//! `any` and `all` of a subquery.
//!
//! `x = any (q)` is `x in (q)`, `x <> all (q)` is `x not in (q)`. Of the others `any` is
//! `exists (select 1 from (q) as t (v) where x < v)`, and `all` says that nothing of `q` speaks against it.

use super::nested;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, SelectItem, SetExpr};

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
    let query = crate::dialect::parse_query(&text).ok()?;
    let SetExpr::Select(select) = *query.body else { return None };
    match select.projection.into_iter().next()? {
        SelectItem::UnnamedExpr(expr) => Some(expr),
        _ => None,
    }
}
