//! How windows, and gaps that were filled, are recognized in a plan: their columns and labels.

use datafusion::logical_expr::LogicalPlan;
use whimbrel_plan::nodes::{AlterLifetime, Node, node};

/// The first instant of a row's window.
pub(super) const START: &str = "window_start";

/// The first instant after it.
pub(super) const END: &str = "window_end";

/// How the lifetimes of `cumulate` are labelled.
pub(super) const CUMULATE: &str = "cumulate ";

/// The reserved column with the first instant of a row's session.
pub(super) const SESSION_START: &str = "__session_start";

/// How lifetimes are labelled that end with the cell of a grid, for `fill_gaps`.
pub(super) const CELL: &str = "to the end of the cell";

/// How lifetimes are labelled that rows have after `fill_gaps` as before.
pub(super) const FILLED: &str = "gaps are filled";

/// The rows whose gaps were filled, of which these are the lifetimes.
pub(super) fn rows_with_gaps(alter: &AlterLifetime) -> Option<&LogicalPlan> {
    if alter.label != FILLED {
        return None;
    }
    let Some(Node::FillGaps(gaps)) = node(&alter.input) else { return None };
    let mut rows = &*gaps.input;
    // Between the two, the key of the gaps is set.
    while let Some(Node::ReKey(rekey)) = node(rows) {
        rows = &rekey.input;
    }
    match node(rows) {
        Some(Node::AlterLifetime(cells)) if cells.label == CELL => Some(&cells.input),
        _ => None,
    }
}

/// Whether these are the lifetimes of `cumulate`.
pub(super) fn is_cumulate(alter: &AlterLifetime) -> bool {
    alter.label.starts_with(CUMULATE)
}
