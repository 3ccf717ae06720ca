//! Stars whose columns have to be known.
//!
//! - `select * rename (a as b)` is expanded column by column, with its `exclude` and `replace`.
//! - A replaced or renamed column has to exist, and is named once.
//! - `select t.a, s.*`: the first column is named `a` if the star has no `a`; otherwise the planner gives it
//!   another name.
//!
//! ```sql
//! select * rename (a as b) from t;  -- select a as b, x, y from t
//! ```

use crate::syntax::names;
use datafusion::common::{Column, DataFusionError, Diagnostic, Result, Span};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, IdentWithAlias, RenameSelectItem, ReplaceSelectItem, Select, SelectItem, TableWithJoins,
    WildcardAdditionalOptions,
};
use std::collections::HashSet;
use whimbrel_plan::names::unknown_column;

/// Expands such stars of a select; `columns` are those of a star over its tables. A star whose columns are
/// not known stays.
///
/// # Errors
/// `Plan`, with the place, if a replaced or renamed column does not exist, or is named twice.
pub(super) fn expand(
    select: &mut Select,
    columns: impl Fn(SelectItem, &[TableWithJoins]) -> Result<Vec<Column>>,
) -> Result<()> {
    for at in (0..select.projection.len()).rev() {
        let mut star = select.projection[at].clone();
        let Some(bare) = options(&mut star) else { continue };
        let (mut renamed, mut replaced) = (bare.opt_rename.take(), bare.opt_replace.clone());
        if renamed.is_none() && replaced.is_none() {
            continue;
        }
        let Ok(columns) = columns(star, &select.from) else { continue };
        let replaced_names = replaced.iter_mut().flat_map(|all| &mut all.items);
        spell(replaced_names.map(|item| &mut item.column_name), &columns, "replaced")?;
        let renamed_names = renamed.iter_mut().flat_map(renames_mut);
        spell(renamed_names.map(|item| &mut item.ident), &columns, "renamed")?;
        // The planner compares the names of replaced columns letter by letter.
        if let Some(spelled) = options(&mut select.projection[at]) {
            spelled.opt_replace.clone_from(&replaced);
        }
        if let Some(renamed) = renamed {
            let items = columns.into_iter().map(|column| item(column, &renamed, replaced.as_ref()));
            select.projection.splice(at..=at, items.collect::<Vec<_>>());
        }
    }
    name_columns_beside_stars(select, columns);
    Ok(())
}

/// Writes names as the columns of a star are spelled. Refuses one that no column has, and one that comes
/// again.
fn spell<'a>(names: impl Iterator<Item = &'a mut Ident>, columns: &[Column], what: &str) -> Result<()> {
    let mut seen: HashSet<String> = HashSet::new();
    for name in names {
        let Some(column) = named(name, columns) else {
            let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            return Err(at(name, unknown_column(&names::ident(name), &known)));
        };
        if !seen.insert(column.name.clone()) {
            let message = format!("column {:?} is {what} twice; leave out one of them", column.name);
            return Err(at(name, DataFusionError::Plan(message)));
        }
        name.value.clone_from(&column.name);
        name.quote_style = Some('"');
    }
    Ok(())
}

/// An error with the place of a name.
fn at(name: &Ident, error: DataFusionError) -> DataFusionError {
    let span = Span::try_from_sqlparser_span(name.span);
    let message = error.message().to_string();
    DataFusionError::Diagnostic(Box::new(Diagnostic::new_error(message, span)), Box::new(error))
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

/// The renamed columns of a star, to be changed.
fn renames_mut(renamed: &mut RenameSelectItem) -> &mut [IdentWithAlias] {
    match renamed {
        RenameSelectItem::Single(only) => std::slice::from_mut(only),
        RenameSelectItem::Multiple(all) => all.as_mut_slice(),
    }
}

/// The renamed columns of a star.
fn renames(renamed: &RenameSelectItem) -> &[IdentWithAlias] {
    match renamed {
        RenameSelectItem::Single(only) => std::slice::from_ref(only),
        RenameSelectItem::Multiple(all) => all.as_slice(),
    }
}

/// A column of a star with its new name or value; the names are spelled as those of the columns.
fn item(column: Column, renamed: &RenameSelectItem, replaced: Option<&ReplaceSelectItem>) -> SelectItem {
    let alias = renames(renamed).iter().find(|name| name.ident.value == column.name);
    let replaced = replaced.into_iter().flat_map(|replaced| &replaced.items);
    let value = replaced.into_iter().find(|item| item.column_name.value == column.name);
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

/// The column of this name; without quotes in any letters, if none is written as the name is.
fn named<'a>(name: &Ident, columns: &'a [Column]) -> Option<&'a Column> {
    let exact = names::ident(name);
    columns.iter().find(|column| column.name == exact).or_else(|| {
        let alike = |column: &&Column| column.name.eq_ignore_ascii_case(&name.value);
        columns.iter().find(alike).filter(|_| name.quote_style.is_none())
    })
}
