//! Stars whose columns have to be known.
//!
//! - `select * rename (a as b)` is expanded column by column, with its `exclude` and `replace`.
//! - A replaced column has to exist. As in DuckDB, a renamed one need not.
//! - `select t.a, s.*`: the first column is named `a` if the star has no `a`; otherwise the planner gives it
//!   another name.
//!
//! ```sql
//! select * rename (a as b) from t;  -- select a as b, x, y from t
//! ```

use crate::syntax::names;
use datafusion::common::{Column, DataFusionError, Diagnostic, Result, Span};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, IdentWithAlias, RenameSelectItem, ReplaceSelectItem, Select, SelectItem, Spanned,
    TableWithJoins, WildcardAdditionalOptions,
};
use whimbrel_plan::names::unknown_column;

/// Expands such stars of a select; `columns` are those of a star over its tables. A star whose columns are
/// not known stays.
///
/// # Errors
/// `Plan`, with the place, if a replaced column does not exist.
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
        names.into_iter().try_for_each(|name| check_exists(name, &columns))?;
        if let Some(renamed) = renamed {
            let items = columns.into_iter().map(|column| item(column, &renamed, replaced.as_ref()));
            select.projection.splice(at..=at, items.collect::<Vec<_>>());
        }
    }
    name_columns_beside_stars(select, columns);
    Ok(())
}

/// Refuses a name that no column of a star has.
fn check_exists(name: &Ident, columns: &[Column]) -> Result<()> {
    if columns.iter().any(|column| has_name(name, column)) {
        return Ok(());
    }
    let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let error = unknown_column(&names::ident(name), &known);
    let at = Span::try_from_sqlparser_span(Expr::Identifier(name.clone()).span());
    let message = error.message().to_string();
    Err(DataFusionError::Diagnostic(Box::new(Diagnostic::new_error(message, at)), Box::new(error)))
}

/// Names the columns beside stars, unless a star has a column of the same name.
fn name_columns_beside_stars(
    select: &mut Select,
    columns: impl Fn(SelectItem, &[TableWithJoins]) -> Result<Vec<Column>>,
) {
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

/// The options of a star.
fn options(item: &mut SelectItem) -> Option<&mut WildcardAdditionalOptions> {
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => Some(options),
        _ => None,
    }
}

/// The renamed columns of a star.
fn renames(renamed: &RenameSelectItem) -> &[IdentWithAlias] {
    match renamed {
        RenameSelectItem::Single(only) => std::slice::from_ref(only),
        RenameSelectItem::Multiple(all) => all.as_slice(),
    }
}

/// A column of a star with its new name or value.
fn item(column: Column, renamed: &RenameSelectItem, replaced: Option<&ReplaceSelectItem>) -> SelectItem {
    let alias = renames(renamed).iter().find(|name| has_name(&name.ident, &column));
    let replaced = replaced.into_iter().flat_map(|replaced| &replaced.items);
    let value = replaced.into_iter().find(|item| has_name(&item.column_name, &column));
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

/// Whether a name is that of a column; without quotes, in any case.
fn has_name(name: &Ident, column: &Column) -> bool {
    names::ident(name) == column.name
        || (name.quote_style.is_none() && name.value.eq_ignore_ascii_case(&column.name))
}
