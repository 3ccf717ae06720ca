//! Fields of structs of outer columns: `t.s.a` in a subquery becomes `get_field(t.s, 'a')`, which the planner
//! resolves for outer columns too.

use crate::syntax::ast::call;
use crate::syntax::names;
use crate::syntax::walk::walk_mut;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, Statement, Value, VisitorMut};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Reads the fields of these columns (`table.column`) by calls.
pub(in crate::syntax) fn outer_struct_fields(statement: &mut Statement, columns: &BTreeSet<String>) {
    if !columns.is_empty() {
        // The visitor never breaks off.
        let _: ControlFlow<()> = walk_mut(statement, &mut Fields { columns });
    }
}

/// Rewrites the fields of these columns.
struct Fields<'a> {
    /// The columns, as `table.column`.
    columns: &'a BTreeSet<String>,
}

impl VisitorMut for Fields<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        // The column keeps the name of the field.
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = item
                && self.column(parts).is_some()
                && let Some(alias) = parts.last().cloned()
            {
                *item = SelectItem::ExprWithAlias { expr: Expr::CompoundIdentifier(parts.clone()), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let Some(length) = self.column(parts)
        {
            let fields = parts.split_off(length);
            let column = match parts.as_slice() {
                [name] => Expr::Identifier(name.clone()),
                _ => Expr::CompoundIdentifier(std::mem::take(parts)),
            };
            let path = fields.iter().map(names::ident);
            let path = path.map(|field| Expr::Value(Value::SingleQuotedString(field).into()));
            *expr = call("get_field", [column].into_iter().chain(path).collect());
        }
        ControlFlow::Continue(())
    }
}

impl Fields<'_> {
    /// How many of these parts name one of the columns, if there is a field behind them.
    fn column(&self, parts: &[Ident]) -> Option<usize> {
        (1..parts.len()).find(|length| self.is_column(&parts[..*length]))
    }

    /// Whether these parts name one of the columns, with or without its table.
    fn is_column(&self, parts: &[Ident]) -> bool {
        let name = parts.iter().map(names::ident).collect::<Vec<_>>().join(".");
        let column = |known: &String| known.rsplit_once('.').is_some_and(|(_, column)| column == name);
        self.columns.contains(&name) || self.columns.iter().any(column)
    }
}
