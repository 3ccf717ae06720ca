//! Aliases of a select list that are used in it, or in `where`, `group by` and `having`:
//! `select i + 1 k, k * 2 … where k > 5`.
//!
//! A column of that name has precedence, so an alias is inlined only where the planner has found no column:
//! at places in the text, given by their ends.
//!
//! ```sql
//! select x + 1 as y, y * 2 as z from t where y > 5;
//! -- select x + 1 as y, (x + 1) * 2 as z from t where (x + 1) > 5
//! ```

use super::substitute;
use crate::functions::is_scalar;
use crate::syntax::ast::nested;
use crate::syntax::names;
use crate::syntax::walk::{walk, walk_mut};
use datafusion::sql::sqlparser::ast::{Expr, Ident, Select, SelectItem, Statement, Visitor, VisitorMut};
use datafusion::sql::sqlparser::tokenizer::Location;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

/// Inlines aliases in these places.
pub(in crate::syntax) fn inline_aliases(statement: &mut Statement, places: &BTreeSet<Location>) {
    if !places.is_empty() {
        // The visitor never breaks off.
        let _: ControlFlow<()> = walk_mut(statement, &mut Selects { places });
    }
}

/// Inlines aliases in every select.
struct Selects<'a> {
    /// The ends of the names to replace.
    places: &'a BTreeSet<Location>,
}

impl VisitorMut for Selects<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut aliases: HashMap<String, Expr> = HashMap::new();
        let value = |name: &Ident, aliases: &HashMap<String, Expr>| match self.places.contains(&name.span.end)
        {
            true => aliases.get(&names::ident(name)).cloned(),
            false => None,
        };
        for item in &mut select.projection {
            substitute::substitute(item, |name| value(name, &aliases));
            if let SelectItem::ExprWithAlias { expr, alias } = item {
                aliases.insert(names::ident(alias), nested(expr.clone()));
            }
        }
        substitute::substitute(&mut select.selection, |name| value(name, &aliases));
        substitute::substitute(&mut select.group_by, |name| value(name, &aliases));
        substitute::substitute(&mut select.having, |name| value(name, &aliases));
        substitute::substitute(&mut select.qualify, |name| value(name, &aliases));
        ControlFlow::Continue(())
    }
}

/// Whether a select calls a function that may be an aggregate.
pub(super) fn may_aggregate(select: &Select) -> bool {
    /// Breaks off at the first such call.
    struct Calls;
    impl Visitor for Calls {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(call) if !is_scalar(&call.name.to_string().to_ascii_lowercase()) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk(select, &mut Calls).is_break()
}
