//! How windows are recognized in a plan: their columns and labels.

use whimbrel_plan::nodes::AlterLifetime;

/// The first instant of a row's window.
pub(super) const START: &str = "window_start";

/// The first instant after it.
pub(super) const END: &str = "window_end";

/// How the lifetimes of `cumulate` are labelled.
pub(super) const CUMULATE: &str = "cumulate ";

/// The reserved column with the first instant of a row's session.
pub(super) const SESSION_START: &str = "__session_start";

/// Whether these are the lifetimes of `cumulate`.
pub(super) fn is_cumulate(alter: &AlterLifetime) -> bool {
    alter.label.starts_with(CUMULATE)
}
