//! Aliases of a select list that are used in it, or in `where`, `group by` and `having`: `select i + 1 k, k * 2 … where k > 5`.
//!
//! A column of that name comes first, so an alias is put in place only where the planner found no column: places in the text, given
//! by their ends.

use super::nested;
use crate::names;
use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, SelectItem, Statement, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Location;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

/// Puts what aliases stand for in these places.
pub(crate) fn in_place(statement: &mut Statement, places: &BTreeSet<Location>) {
    if !places.is_empty() {
        // The visitor never breaks off.
        let _: ControlFlow<()> = VisitMut::visit(statement, &mut Selects { places });
    }
}

struct Selects<'a> {
    places: &'a BTreeSet<Location>,
}

impl VisitorMut for Selects<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut aliases = Aliases { places: self.places, known: HashMap::new(), depth: 0 };
        for item in &mut select.projection {
            VisitMut::visit(item, &mut aliases)?;
            if let SelectItem::ExprWithAlias { expr, alias } = item {
                aliases.known.insert(names::ident(alias), nested(expr.clone()));
            }
        }
        if !aliases.known.is_empty() {
            VisitMut::visit(&mut select.selection, &mut aliases)?;
            VisitMut::visit(&mut select.group_by, &mut aliases)?;
            VisitMut::visit(&mut select.having, &mut aliases)?;
            VisitMut::visit(&mut select.qualify, &mut aliases)?;
        }
        ControlFlow::Continue(())
    }
}

struct Aliases<'a> {
    places: &'a BTreeSet<Location>,
    known: HashMap<String, Expr>,
    /// In how many queries inside of this one.
    depth: usize,
}

impl VisitorMut for Aliases<'_> {
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
        if let Expr::Identifier(name) = expr
            && self.depth == 0
            && self.places.contains(&name.span.end)
            && let Some(value) = self.known.get(&names::ident(name))
        {
            *expr = value.clone();
        }
        ControlFlow::Continue(())
    }
}

/// Whether a select has a call of a function.
pub(super) fn calls(select: &Select) -> bool {
    struct Calls;
    impl Visitor for Calls {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    Visit::visit(select, &mut Calls).is_break()
}
