//! How windows are recognized in a plan: their columns, labels and joins.

use datafusion::logical_expr::{Join, LogicalPlan};
use whimbrel_plan::nodes::AlterLifetime;
use whimbrel_plan::{Node, node};

/// The first instant of a row's window.
pub(super) const START: &str = "window_start";

/// The first instant after it.
pub(super) const END: &str = "window_end";

/// How the lifetimes of `cumulate` are labelled.
pub(super) const CUMULATE: &str = "cumulate ";

/// The reserved column with the time of a row in its session.
pub(super) const ROW_TIME: &str = "__window_time";

/// Whether these are the lifetimes of `cumulate`.
pub(super) fn is_cumulate(alter: &AlterLifetime) -> bool {
    alter.label.starts_with(CUMULATE)
}

/// Whether a join adds the first instant of each session to its rows. The first instant itself may be gone
/// from it, if nothing uses it.
pub(super) fn is_session(join: &Join) -> bool {
    let LogicalPlan::Aggregate(first) =
        below(&join.right, |plan| matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_)))
    else {
        return false;
    };
    let rows = below(&first.input, |plan| {
        plan.inputs().len() == 1 && !matches!(node(plan), Some(Node::Session(_) | Node::Ingress(_)))
    });
    let is_of_windows =
        first.group_expr.iter().any(|group| group.try_as_col().is_some_and(|column| column.name == END));
    matches!(node(rows), Some(Node::Session(_))) && !is_of_windows
}

/// The first part of a plan that is not passed, from the top down along first inputs.
fn below(plan: &LogicalPlan, passed: impl Fn(&LogicalPlan) -> bool) -> &LogicalPlan {
    let mut plan = plan;
    while passed(plan) {
        plan = plan.inputs()[0];
    }
    plan
}
