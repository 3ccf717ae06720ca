//! `from t unpivot (value for name in (a, b))`: a row of `t` for each of the columns, with the name and the
//! value of the column; rows with null values are dropped unless they are included. Each row is repeated with
//! the number of a column.

use crate::columns::fresh_name;
use crate::syntax::ast::{call, quote};
use crate::syntax::{names, parser};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, ExcludeSelectItem, Expr, ExprWithAlias, Ident, NullInclusion, ObjectName, Query, Select,
    SelectItem, SetExpr, TableFactor, TableWithJoins, Value, WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

/// Rewrites it. It breaks off with why it cannot.
///
/// ```sql
/// select * from (
///     select * exclude (a, b, i), case i when 1 then 'a' … end as name, case i when 1 then a … end as value
///     from (select *, unnest([1, 2]) as i from t)
/// ) where value is not null
/// ```
pub(super) fn desugar(factor: &mut TableFactor) -> ControlFlow<String> {
    let TableFactor::Unpivot { table, value, name, columns, null_inclusion, alias } = factor else {
        return ControlFlow::Continue(());
    };
    let Expr::Identifier(value) = value else {
        return ControlFlow::Break(format!("unpivot: values go into one column, {value} is not its name"));
    };
    let list = columns.iter().map(column).collect::<Option<Vec<_>>>();
    let Some(list) = list else {
        return ControlFlow::Break(
            "unpivot takes names of columns; compute others in a query before it".into(),
        );
    };
    let (each, projection) = items(&list, name, value);
    let filter = match null_inclusion {
        Some(NullInclusion::IncludeNulls) => None,
        Some(NullInclusion::ExcludeNulls) | None => {
            Some(Expr::IsNotNull(Box::new(Expr::Identifier(value.clone()))))
        }
    };
    let (table, alias) = (table.as_ref().clone(), alias.take());
    // What is written here can be parsed.
    let text =
        "select * from (select * from (select 1 from (select 1 from t) as __each) as __unpivoted) as q";
    let Ok(mut query) = parser::query(text) else { return ControlFlow::Continue(()) };
    let Some(mut from) = selected(&mut query).and_then(|select| select.from.pop()) else {
        return ControlFlow::Continue(());
    };
    if let TableFactor::Derived { subquery, alias: named, .. } = &mut from.relation
        && let Some(filtered) = selected(subquery)
        && let Some(rows) = filtered.from.first_mut().and_then(derived)
        && let Some(numbered) = rows.from.first_mut().and_then(derived)
        && let Some(source) = numbered.from.first_mut()
    {
        source.relation = table;
        numbered.projection = each;
        rows.projection = projection;
        filtered.selection = filter;
        *named = alias;
        *factor = from.relation;
    }
    ControlFlow::Continue(())
}

/// The select list over the table, which repeats its rows, and the one over the repeated rows.
fn items(list: &[(Ident, String)], name: &Ident, value: &Ident) -> (Vec<SelectItem>, Vec<SelectItem>) {
    let at = Ident::new(fresh_name("column"));
    let quoted = |column: &Ident| Ident::with_quote('"', names::ident(column));
    let excluded = list.iter().map(|(column, _)| quoted(column)).chain([at.clone()]);
    let others = SelectItem::Wildcard(WildcardAdditionalOptions {
        opt_exclude: Some(ExcludeSelectItem::Multiple(
            excluded.map(|column| ObjectName::from(vec![column])).collect(),
        )),
        ..WildcardAdditionalOptions::default()
    });
    let names = chosen(&at, list.iter().map(|(_, name)| quote(name)));
    let values = chosen(&at, list.iter().map(|(column, _)| Expr::Identifier(column.clone())));
    let places = call("make_array", (1..=list.len()).map(number).collect());
    let each = SelectItem::ExprWithAlias { expr: call("unnest", vec![places]), alias: at };
    let selected = vec![
        others,
        SelectItem::ExprWithAlias { expr: names, alias: name.clone() },
        SelectItem::ExprWithAlias { expr: values, alias: value.clone() },
    ];
    (vec![SelectItem::Wildcard(WildcardAdditionalOptions::default()), each], selected)
}

/// A column of the list, and its name in the rows.
fn column(given: &ExprWithAlias) -> Option<(Ident, String)> {
    let column = match &given.expr {
        Expr::Identifier(column) => column,
        Expr::CompoundIdentifier(parts) => parts.last()?,
        _ => return None,
    };
    let called = given.alias.as_ref().map_or_else(|| names::ident(column), |alias| alias.value.clone());
    Some((column.clone(), called))
}

/// The element of a list with this number, counted from one.
fn chosen(at: &Ident, list: impl Iterator<Item = Expr>) -> Expr {
    let conditions =
        list.enumerate().map(|(place, result)| CaseWhen { condition: number(place + 1), result });
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: Some(Box::new(Expr::Identifier(at.clone()))),
        conditions: conditions.collect(),
        else_result: None,
    }
}

/// The select of a query.
fn selected(query: &mut Query) -> Option<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}

/// The select of a derived table.
fn derived(from: &mut TableWithJoins) -> Option<&mut Select> {
    match &mut from.relation {
        TableFactor::Derived { subquery, .. } => selected(subquery),
        _ => None,
    }
}

/// A number literal.
fn number(value: usize) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).into())
}
