//! How windows are recognized in a plan: their columns, labels and joins.

use datafusion::logical_expr::{Join, LogicalPlan};
use whimbrel_plan::nodes::AlterLifetime;

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

/// Whether a join adds the first instant of each session to its rows.
pub(super) fn is_session(join: &Join) -> bool {
    let mut first = join.right.as_ref();
    while let LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) = first {
        first = first.inputs()[0];
    }
    let LogicalPlan::Aggregate(aggregate) = first else { return false };
    aggregate.aggr_expr.iter().any(|call| call.column_refs().iter().any(|column| column.name == ROW_TIME))
}
