//! Which queries `emit changes within` can answer: the result of a window has to depend on its rows alone,
//! so that a window that is over can be forgotten, and one watermark has to say when it is.
//!
//! A plan that comes here means the same over a stream as over a table (`semantics`).

use super::semantics::{Liveness, is_at_same_instant, liveness};
use super::window_nodes::{END, is_session};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Join, LogicalPlan};
use std::sync::Arc;
use whimbrel_plan::nodes::{LifetimeChange, Node, node};
use whimbrel_plan::source_of;

/// Refuses a query whose windows cannot be forgotten one by one.
///
/// # Errors
/// `Plan`, with what is not about one window.
pub(crate) fn check(plan: &LogicalPlan) -> Result<()> {
    let mut live: Vec<*const ()> = Vec::new();
    plan.apply_with_subqueries(|step| {
        match step {
            LogicalPlan::TableScan(scan) => {
                let unbounded = source_of(scan).filter(|source| !source.info().bounded);
                live.extend(unbounded.map(|source| Arc::as_ptr(&source).cast::<()>()));
            }
            LogicalPlan::Join(join) => check_pairs_of_one_window(join)?,
            LogicalPlan::Extension(_) => check_node_of_one_window(step)?,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    live.sort_unstable();
    live.dedup();
    match live.len() {
        0 | 1 => Ok(()),
        n => plan_err!(
            "emit changes within: the query reads {n} live sources, and how late a row is would be told by one of them; \
             leave out within, so that nothing is forgotten, or emit changes, for final rows"
        ),
    }
}

/// A join under `emit changes within` pairs rows of one window, or rows of a table.
fn check_pairs_of_one_window(join: &Join) -> Result<()> {
    if is_session(join) {
        return unknown_ends();
    }
    match (liveness(&join.left)?, liveness(&join.right)?) {
        (Liveness::From(left), Liveness::From(right)) if is_at_same_instant(join, &left, &right) => Ok(()),
        (Liveness::Always, _) | (_, Liveness::Always) => Ok(()),
        _ => plan_err!(
            "emit changes within: a join of streams has to pair rows of one window, on {END}; leave out within, so that \
             nothing is forgotten"
        ),
    }
}

/// A node under `emit changes within` looks at single rows, or at the rows of one window.
fn check_node_of_one_window(plan: &LogicalPlan) -> Result<()> {
    match node(plan) {
        Some(Node::Ingress(ingress)) if ingress.time.end.is_none() => Ok(()),
        Some(Node::ReKey(_) | Node::Exchange(_) | Node::AlterLifetime(_) | Node::WithStart(_)) => Ok(()),
        Some(Node::ChangeLifetimes(of)) if matches!(of.change, LifetimeChange::Chop(_)) => Ok(()),
        _ => unknown_ends(),
    }
}

/// The error for windows that a later row can make longer.
fn unknown_ends() -> Result<()> {
    plan_err!(
        "emit changes within takes windows whose ends are known beforehand: tumble, hop and cumulate; leave out within, \
         so that nothing is forgotten"
    )
}
