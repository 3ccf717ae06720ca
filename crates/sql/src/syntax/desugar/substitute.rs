//! Names that a part of a query reads itself, not its subqueries: what they stand for is put in their place.

use crate::syntax::walk::walk_mut;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// Puts what `value` gives for a bare name in its place.
pub(super) fn replaced(part: &mut impl VisitMut, value: impl Fn(&Ident) -> Option<Expr>) {
    // The visitor never breaks off.
    let _: ControlFlow<()> = walk_mut(part, &mut Own { value, depth: 0 });
}

struct Own<F> {
    value: F,
    /// In how many queries inside of this one.
    depth: usize,
}

impl<F: Fn(&Ident) -> Option<Expr>> VisitorMut for Own<F> {
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
