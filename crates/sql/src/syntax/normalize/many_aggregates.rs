//! Selects with many aggregates or window functions. For each column of a projection right above their node,
//! DataFusion's planner collects all results of the node anew (`columnize_expr`), which is quadratic. Above a
//! filter it does not. So such a select gets `having true` or `qualify true`, which the optimizer removes.
//!
//! DataFusion's planner refuses a `qualify` without a window function of its own, even beside selected ones.
//! So it gets one of these, in a condition that is always true.
//!
//! ```sql
//! select x, row_number() over () from t qualify x > 2;
//! -- select x, row_number() over () from t qualify x > 2 and (row_number() over () is null or true)
//! ```

use crate::functions::is_aggregate;
use crate::syntax::ast::nested;
use crate::syntax::walk::walk;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Query, Select, Value, Visit, Visitor,
};
use std::ops::ControlFlow;

/// Selects with at most this many columns are left as they are.
const MANY: usize = 64;

/// Adds the filter to a select with many columns.
pub(super) fn filter(select: &mut Select) {
    let many = select.projection.len() > MANY;
    if !many && select.qualify.is_none() {
        return;
    }
    let selected = calls(&select.projection);
    if many && select.having.is_none() && (selected.aggregate || is_grouped(select)) {
        select.having = Some(always());
    }
    if let Some(window) = selected.window
        && calls(&select.qualify).window.is_none()
    {
        select.qualify = Some(with_window(select.qualify.take(), window));
    }
}

/// Whether rows are grouped.
fn is_grouped(select: &Select) -> bool {
    !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty())
}

/// A condition that is always true.
fn always() -> Expr {
    Expr::Value(Value::Boolean(true).into())
}

/// The condition, in which there is a window function now.
fn with_window(condition: Option<Expr>, window: Expr) -> Expr {
    let both = |left: Expr, op: BinaryOperator, right: Expr| {
        let (left, right) = (Box::new(nested(left)), Box::new(nested(right)));
        Expr::BinaryOp { left, op, right }
    };
    let reads_window = both(Expr::IsNull(Box::new(window)), BinaryOperator::Or, always());
    match condition {
        Some(condition) => both(condition, BinaryOperator::And, reads_window),
        None => reads_window,
    }
}

/// The calls in a part of a select.
fn calls(part: &impl Visit) -> Calls {
    let mut calls = Calls::default();
    // The visitor never breaks off.
    let _: ControlFlow<()> = walk(part, &mut calls);
    calls
}

/// The kinds of calls in an expression, those in subqueries left out.
#[derive(Default)]
struct Calls {
    /// Whether one is of an aggregate.
    aggregate: bool,
    /// One of a window function.
    window: Option<Expr>,
    /// How many queries the walk is inside of.
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
            if call.over.is_some() {
                self.window.get_or_insert_with(|| expr.clone());
            }
            self.aggregate |=
                call.over.is_none() && is_aggregate(&call.name.to_string().to_ascii_lowercase());
        }
        ControlFlow::Continue(())
    }
}
