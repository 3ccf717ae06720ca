//! `order by all`: by every column, from the left.

use super::set_operations;
use datafusion::sql::sqlparser::ast::{
    Expr, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr,
    SetQuantifier, Value,
};

/// Orders by the numbers of the columns. With a star their number is not known, and the query gets a reserved
/// name.
pub(super) fn desugar(query: &mut Query) {
    let Some(options) = query.order_by.as_ref().and_then(by_all) else { return };
    match width(&query.body) {
        Some(width) => {
            let number = |at: usize| Expr::Value(Value::Number(at.to_string(), false).into());
            let exprs = (1..=width).map(|at| OrderByExpr { expr: number(at), options, with_fill: None });
            let kind = OrderByKind::Expressions(exprs.collect());
            query.order_by = Some(OrderBy { kind, interpolate: None });
        }
        None => {
            query.order_by = None;
            set_operations::mark_ordered(query, options);
        }
    }
}

/// How all columns are ordered, if they are.
fn by_all(order: &OrderBy) -> Option<OrderByOptions> {
    let OrderByKind::Expressions(exprs) = &order.kind else { return None };
    match exprs.as_slice() {
        [OrderByExpr { expr: Expr::Identifier(name), options, .. }]
            if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") =>
        {
            Some(*options)
        }
        _ => None,
    }
}

/// How many columns a query has, if its text tells.
fn width(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => listed(select),
        SetExpr::SetOperation { left, set_quantifier, .. } if !by_name(set_quantifier) => width(left),
        SetExpr::Query(query) => width(&query.body),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

/// Whether columns that one side alone has are there too.
fn by_name(quantifier: &SetQuantifier) -> bool {
    matches!(quantifier, SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName)
}

/// The number of items of a select list without stars.
fn listed(select: &Select) -> Option<usize> {
    let is_one_column = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => !several(expr),
        _ => false,
    };
    select.projection.iter().all(is_one_column).then_some(select.projection.len())
}

/// Whether this may be several columns: `unnest` of a struct.
fn several(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("unnest"))
}
