//! Selects with many aggregates or window functions. For each column of a projection right above their node,
//! DataFusion's planner collects all results of the node anew (`columnize_expr`), which is quadratic. Above a
//! filter it does not. So such a select gets `having true` or `qualify true`, which the optimizer removes.

use crate::functions::is_aggregate;
use crate::syntax::walk::walk;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Query, Select, Value, Visitor};
use std::ops::ControlFlow;

/// Selects with at most this many columns are left as they are.
const MANY: usize = 64;

/// Adds the filter to a select with many columns.
pub(super) fn filter(select: &mut Select) {
    if select.projection.len() <= MANY {
        return;
    }
    let mut calls = Calls::default();
    for item in &select.projection {
        // The visitor never breaks off.
        let _: ControlFlow<()> = walk(item, &mut calls);
    }
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let always = || Some(Expr::Value(Value::Boolean(true).into()));
    if select.having.is_none() && (calls.aggregate || grouped) {
        select.having = always();
    }
    if select.qualify.is_none() && calls.window {
        select.qualify = always();
    }
}

/// The kinds of calls in an expression, those in subqueries left out.
#[derive(Default)]
struct Calls {
    aggregate: bool,
    window: bool,
    queries: usize,
}

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && self.queries == 0
        {
            self.window |= call.over.is_some();
            self.aggregate |=
                call.over.is_none() && is_aggregate(&call.name.to_string().to_ascii_lowercase());
        }
        ControlFlow::Continue(())
    }
}
