//! Substitution of names in a part of a query, without its subqueries.

use crate::syntax::walk::walk_mut;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// Replaces bare names by expressions.
pub(super) fn substitute(part: &mut impl VisitMut, value: impl Fn(&Ident) -> Option<Expr>) {
    // The visitor never breaks off.
    let _: ControlFlow<()> = walk_mut(part, &mut Substitute { value, depth: 0 });
}

/// Replaces the names that the outermost query reads itself.
struct Substitute<F> {
    /// The expression of a name.
    value: F,
    /// How deep in subqueries the visitor is.
    depth: usize,
}

impl<F: Fn(&Ident) -> Option<Expr>> VisitorMut for Substitute<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let (Expr::Identifier(name), 0) = (&*expr, self.depth)
            && let Some(value) = (self.value)(name)
        {
            *expr = value;
        }
        ControlFlow::Continue(())
    }
}
