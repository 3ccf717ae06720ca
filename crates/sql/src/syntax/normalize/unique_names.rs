//! `select a, a from t` is SQL, but the columns of a plan have different names: the second becomes `a_1`. A
//! column without a name is called as its expression reads.
//!
//! ```sql
//! select a, a, a + 1, count(*) from t;
//! -- select a, a as "a_1", a + 1 as "a + 1", count(*) as "count(*)" from t
//! ```

use crate::syntax::names::ident;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem};
use std::collections::HashSet;

/// Gives the columns of a select different names.
pub(super) fn name_columns(select: &mut Select) {
    let wild = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let aliases = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(ident(alias)),
        _ => None,
    });
    let mut taken: HashSet<String> = aliases.collect();
    let mut given: HashSet<String> = HashSet::new();
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            let name = ident(alias);
            if !given.insert(name.clone()) {
                *alias = Ident::with_quote('"', numbered(&name, 1, &mut taken));
            }
            continue;
        }
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let column = column_name(expr);
        let name = column.clone().unwrap_or_else(|| expr.to_string());
        let free = match column.is_some() && wild {
            // The columns behind a star are not known here; an explicit one is most likely among them.
            true => numbered(&name, 1, &mut taken),
            false => numbered(&name, 0, &mut taken),
        };
        if column.as_ref() != Some(&free) {
            let alias = Ident::with_quote('"', free);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// The name of the column that this is, if it is nothing else.
fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(ident(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(ident),
        _ => None,
    }
}

/// The first of `name`, `name_1`, `name_2`, … that is not taken, from this number on.
fn numbered(name: &str, from: usize, taken: &mut HashSet<String>) -> String {
    let mut names = (from..).map(|n| if n == 0 { name.to_string() } else { format!("{name}_{n}") });
    // There are more numbers than names.
    names.find(|free| taken.insert(free.clone())).unwrap_or_else(|| name.to_string())
}
