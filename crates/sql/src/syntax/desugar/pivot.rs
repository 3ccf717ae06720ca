//! `from t pivot (sum(x) for k in ('a', 'b'))`: one row for each group of the columns that are neither
//! aggregated nor pivoted, one column for each value of the list and each aggregate.
//!
//! The values are in the text, so the columns of the result are known. The groups need the columns of the
//! table: in the tree a pivot is a query without groups, with a reserved name, and the groups are added when
//! it is planned.
//!
//! ```sql
//! select * from t pivot (sum(x) for k in ('a', 'b'));
//! -- select * from (
//! --     select sum(x) filter (where k = 'a') as a, sum(x) filter (where k = 'b') as b from t
//! -- ) as __pivoted
//! ```

use crate::syntax::ast::nested as parenthesized;
use crate::syntax::parser;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, Ident, PivotValueSource, Query, Select, SelectItem, SetExpr,
    TableFactor, TypedString, UnaryOperator, Value,
};
use std::ops::ControlFlow;

/// The reserved name of a pivot.
pub(crate) const PIVOTED: &str = "__pivoted";

/// Rewrites a pivot as a query without groups. It breaks off with why it cannot.
pub(super) fn mark_pivot(factor: &mut TableFactor) -> ControlFlow<String> {
    let TableFactor::Pivot { table, aggregate_functions, value_column, value_source, default_on_null, alias } =
        factor
    else {
        return ControlFlow::Continue(());
    };
    if default_on_null.is_some() {
        return ControlFlow::Break(
            "pivot: write coalesce around the columns in place of default on null".into(),
        );
    }
    let PivotValueSource::List(values) = value_source else {
        let message = "pivot: the columns of a result have to be known before its rows; list the values, for k in ('a', 'b')";
        return ControlFlow::Break(message.into());
    };
    let mut items: Vec<SelectItem> = Vec::new();
    for value in values {
        let (name, condition) = one_value(value_column, value)?;
        for aggregate in aggregate_functions.iter() {
            let name = match (&aggregate.alias, aggregate_functions.len()) {
                (None, 1) => name.clone(),
                (None, _) => format!("{name}_{}", aggregate.expr),
                (Some(alias), _) => format!("{name}_{}", alias.value),
            };
            let item = filtered(aggregate.expr.clone(), condition.clone(), name)?;
            if items.contains(&item) {
                return ControlFlow::Break(format!("pivot: the list has {} twice", value.expr));
            }
            items.push(item);
        }
    }
    let (table, alias) = (table.as_ref().clone(), alias.take());
    // What is written here can be parsed.
    let text = format!("select * from (select * from (select 1 from t) as {PIVOTED}) as q");
    let Ok(mut query) = parser::query(&text) else { return ControlFlow::Continue(()) };
    if let Some(select) = nested(&mut query).and_then(nested).and_then(selected)
        && let Some(from) = select.from.first_mut()
    {
        select.projection = items;
        from.relation = table;
    }
    let Some(mut from) = selected(&mut query).and_then(|select| select.from.pop()) else {
        return ControlFlow::Continue(());
    };
    if let TableFactor::Derived { alias: name, .. } = &mut from.relation {
        *name = alias;
    }
    *factor = from.relation;
    ControlFlow::Continue(())
}

/// The select that a query is.
fn selected(query: &mut Query) -> Option<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}

/// The query that another one reads.
fn nested(query: &mut Query) -> Option<&mut Query> {
    match &mut selected(query)?.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery),
        _ => None,
    }
}

/// The name of the column of a value, and the condition on its rows.
fn one_value(columns: &[Expr], value: &ExprWithAlias) -> ControlFlow<String, (String, Expr)> {
    let values = match (&value.expr, columns.len()) {
        (Expr::Tuple(values), width) if width == values.len() => values.as_slice(),
        (only, 1) => std::slice::from_ref(only),
        (other, width) => {
            return ControlFlow::Break(format!(
                "pivot: {other} is not a list of {width} values, one for each column"
            ));
        }
    };
    let mut names = Vec::new();
    let mut condition: Option<Expr> = None;
    for (column, value) in columns.iter().zip(values) {
        let Some(name) = text(value) else {
            let message = format!(
                "pivot: {value} is not a value that a column can be called after; write 'a', 1, or null"
            );
            return ControlFlow::Break(message);
        };
        names.push(name);
        let own = equal(column.clone(), value.clone());
        condition = Some(condition.map_or_else(|| own.clone(), |others| and(others, own.clone())));
    }
    let name = value.alias.as_ref().map_or_else(|| names.join("_"), |alias| alias.value.clone());
    match condition {
        Some(condition) => ControlFlow::Continue((name, condition)),
        None => ControlFlow::Break("pivot: give the column whose values become columns".into()),
    }
}

/// The name that a literal gives.
fn text(value: &Expr) -> Option<String> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            Value::Number(digits, _) => Some(digits.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            Value::Null => Some("NULL".to_string()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => text(expr).map(|digits| format!("-{digits}")),
        Expr::TypedString(TypedString { value, .. }) => text(&Expr::Value(value.clone())),
        Expr::Cast { expr, .. } => text(expr),
        _ => None,
    }
}

/// Whether a column has a value, which may be null.
fn equal(column: Expr, value: Expr) -> Expr {
    match &value {
        Expr::Value(literal) if literal.value == Value::Null => Expr::IsNull(Box::new(column)),
        _ => Expr::BinaryOp { left: Box::new(column), op: BinaryOperator::Eq, right: Box::new(value) },
    }
}

/// Both conditions.
fn and(left: Expr, right: Expr) -> Expr {
    let nested = |expr| Box::new(parenthesized(expr));
    Expr::BinaryOp { left: nested(left), op: BinaryOperator::And, right: nested(right) }
}

/// The aggregate of the rows that satisfy a condition.
fn filtered(aggregate: Expr, condition: Expr, name: String) -> ControlFlow<String, SelectItem> {
    let Expr::Function(mut call) = aggregate else {
        return ControlFlow::Break(format!("pivot: {aggregate} is not an aggregate"));
    };
    call.filter = Some(Box::new(match call.filter.take() {
        Some(own) => and(*own, condition),
        None => condition,
    }));
    let alias = Ident::with_quote('"', name);
    ControlFlow::Continue(SelectItem::ExprWithAlias { expr: Expr::Function(call), alias })
}
