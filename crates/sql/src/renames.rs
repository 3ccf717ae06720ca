//! `select * rename (a as b)`: a star, one column of which has another name. Which columns a star is only the session knows; here
//! it is said column by column. What is excluded stays excluded, and what is replaced stays replaced.

use crate::names;
use datafusion::common::{Column, Result};
use datafusion::sql::sqlparser::ast::{
    Ident, RenameSelectItem, ReplaceSelectItem, Select, SelectItem, TableWithJoins, WildcardAdditionalOptions,
};

/// Says such stars of a select column by column; `columns` gives those of a select list over the same tables. What cannot be
/// known stays.
pub(crate) fn said(
    select: &mut Select,
    columns: impl Fn(SelectItem, &[TableWithJoins]) -> Result<Vec<Column>>,
) {
    for at in (0..select.projection.len()).rev() {
        let mut star = select.projection[at].clone();
        let Some(options) = options(&mut star) else { continue };
        let Some(renamed) = options.opt_rename.take() else { continue };
        let replaced = options.opt_replace.clone();
        if let Ok(columns) = columns(star, &select.from) {
            let items = columns.into_iter().map(|column| item(column, &renamed, replaced.as_ref()));
            select.projection.splice(at..=at, items.collect::<Vec<_>>());
        }
    }
}

fn options(item: &mut SelectItem) -> Option<&mut WildcardAdditionalOptions> {
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => Some(options),
        _ => None,
    }
}

/// A column of a star under the name that it is to have.
fn item(column: Column, renamed: &RenameSelectItem, replaced: Option<&ReplaceSelectItem>) -> SelectItem {
    let renamed = match renamed {
        RenameSelectItem::Single(only) => std::slice::from_ref(only),
        RenameSelectItem::Multiple(all) => all.as_slice(),
    };
    let alias = renamed.iter().find(|name| is_called(&name.ident, &column));
    let replaced = replaced.into_iter().flat_map(|replaced| &replaced.items);
    let value = replaced.into_iter().find(|item| is_called(&item.column_name, &column));
    let own = Ident::with_quote('"', &column.name);
    match (alias, value) {
        (Some(alias), value) => {
            let expr = value.map_or_else(|| names::column(column), |item| item.expr.clone());
            SelectItem::ExprWithAlias { expr, alias: alias.alias.clone() }
        }
        (None, Some(value)) => SelectItem::ExprWithAlias { expr: value.expr.clone(), alias: own },
        (None, None) => SelectItem::UnnamedExpr(names::column(column)),
    }
}

/// Whether a name stands for a column: without quotes, in whatever letters.
fn is_called(name: &Ident, column: &Column) -> bool {
    names::ident(name) == column.name
        || (name.quote_style.is_none() && name.value.eq_ignore_ascii_case(&column.name))
}
