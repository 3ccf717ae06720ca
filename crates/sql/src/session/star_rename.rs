//! What stands behind and beside a star, once its columns are known, which only the session knows.
//!
//! - `select * rename (a as b)`: a star, one column of which has another name, is said column by column. What is excluded stays
//!   excluded, and what is replaced stays replaced.
//! - What is replaced has to be there. As in DuckDB, what is renamed has not.
//! - `select t.a, s.*`: where the star has no `a`, the column is called so. Where it has one, the planner wants another name.

use crate::syntax::names;
use datafusion::common::{Column, DataFusionError, Diagnostic, Result, Span};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, IdentWithAlias, RenameSelectItem, ReplaceSelectItem, Select, SelectItem, Spanned,
    TableWithJoins, WildcardAdditionalOptions,
};
use whimbrel_plan::names::unknown_column;

/// Says such stars of a select column by column; `columns` gives those of a select list over the same tables. What cannot be
/// known stays.
pub(super) fn expand(
    select: &mut Select,
    columns: impl Fn(SelectItem, &[TableWithJoins]) -> Result<Vec<Column>>,
) -> Result<()> {
    for at in (0..select.projection.len()).rev() {
        let mut star = select.projection[at].clone();
        let Some(options) = options(&mut star) else { continue };
        let (renamed, replaced) = (options.opt_rename.take(), options.opt_replace.clone());
        if renamed.is_none() && replaced.is_none() {
            continue;
        }
        let Ok(columns) = columns(star, &select.from) else { continue };
        let names = replaced.iter().flat_map(|all| &all.items).map(|item| &item.column_name);
        names.into_iter().try_for_each(|name| there(name, &columns))?;
        if let Some(renamed) = renamed {
            let items = columns.into_iter().map(|column| item(column, &renamed, replaced.as_ref()));
            select.projection.splice(at..=at, items.collect::<Vec<_>>());
        }
    }
    beside(select, columns);
    Ok(())
}

/// Whether a star has a column of this name.
fn there(name: &Ident, columns: &[Column]) -> Result<()> {
    if columns.iter().any(|column| is_called(name, column)) {
        return Ok(());
    }
    let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let error = unknown_column(&names::ident(name), &known);
    let at = Span::try_from_sqlparser_span(Expr::Identifier(name.clone()).span());
    let message = error.message().to_string();
    Err(DataFusionError::Diagnostic(Box::new(Diagnostic::new_error(message, at)), Box::new(error)))
}

/// Names the columns beside stars that have none of their name.
fn beside(select: &mut Select, columns: impl Fn(SelectItem, &[TableWithJoins]) -> Result<Vec<Column>>) {
    let column = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(path)) => path.last().cloned(),
        _ => None,
    };
    let stars: Vec<SelectItem> =
        select.projection.iter().filter(|item| options(&mut (*item).clone()).is_some()).cloned().collect();
    if stars.is_empty() || !select.projection.iter().any(|item| column(item).is_some()) {
        return;
    }
    let known = stars.into_iter().map(|star| columns(star, &select.from)).collect::<Result<Vec<_>>>();
    let Ok(known) = known.map(|known| known.concat()) else { return };
    for item in &mut select.projection {
        if let Some(name) = column(item)
            && !known.iter().any(|column| column.name.eq_ignore_ascii_case(&name.value))
            && let SelectItem::UnnamedExpr(expr) = item
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: name };
        }
    }
}

fn options(item: &mut SelectItem) -> Option<&mut WildcardAdditionalOptions> {
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => Some(options),
        _ => None,
    }
}

fn renames(renamed: &RenameSelectItem) -> &[IdentWithAlias] {
    match renamed {
        RenameSelectItem::Single(only) => std::slice::from_ref(only),
        RenameSelectItem::Multiple(all) => all.as_slice(),
    }
}

/// A column of a star under the name that it is to have.
fn item(column: Column, renamed: &RenameSelectItem, replaced: Option<&ReplaceSelectItem>) -> SelectItem {
    let alias = renames(renamed).iter().find(|name| is_called(&name.ident, &column));
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
