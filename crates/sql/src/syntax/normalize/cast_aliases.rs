//! Calls that differ in casts only: `sum(a)` and `sum(a::bigint)`. DataFusion's planner gives both the same
//! name, and refuses a select with both. The second becomes `sum(coalesce(a::bigint))`; the optimizer drops a
//! `coalesce` of one value.

use crate::syntax::ast;
use crate::syntax::walk::{walk, walk_mut};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Select, Visitor, VisitorMut,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Makes such calls of a select different.
pub(super) fn disambiguate(select: &mut Select) {
    let mut seen = Casts(false);
    // The visitors never break off.
    let _: ControlFlow<()> = walk(select, &mut seen);
    if seen.0 {
        let _: ControlFlow<()> = walk_mut(select, &mut Calls::default());
    }
}

/// Whether there is a cast.
struct Casts(bool);

impl Visitor for Casts {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.0 |= matches!(expr, Expr::Cast { .. });
        ControlFlow::Continue(())
    }
}

/// The calls by their text without casts.
#[derive(Default)]
struct Calls(HashMap<String, Vec<String>>);

impl VisitorMut for Calls {
    type Break = ();

    /// Inner calls come first, so an added `coalesce` is not visited.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if !matches!(expr, Expr::Function(_)) {
            return ControlFlow::Continue(());
        }
        let text = expr.to_string();
        let mut without_casts = expr.clone();
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        let _: ControlFlow<()> = walk_mut(&mut without_casts, &mut WithoutCasts);
        let alike = self.0.entry(without_casts.to_string()).or_default();
        let at = alike.iter().position(|known| *known == text).unwrap_or_else(|| {
            alike.push(text);
            alike.len() - 1
        });
        if let FunctionArguments::List(list) = &mut call.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(value))) = list.args.first_mut()
        {
            for _ in 0..at {
                *value = ast::call("coalesce", vec![value.clone()]);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Removes casts.
struct WithoutCasts;

impl VisitorMut for WithoutCasts {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr: inner, .. } = expr {
            *expr = inner.as_ref().clone();
        }
        ControlFlow::Continue(())
    }
}
