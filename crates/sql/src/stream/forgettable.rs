//! Which queries `emit changes within` can answer: the result of a window has to depend on its rows alone, so
//! that a window that is over can be forgotten, and one watermark has to say when it is.
//!
//! It is asked of the plan that `emit final` runs. There, a step without lifetimes of its own is about the
//! rows of one instant, and so of one window; what is about several instants is a node of the algebra.

use super::window_nodes::is_cumulate;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::LogicalPlan;
use std::sync::Arc;
use whimbrel_plan::calendar::CalendarWindows;
use whimbrel_plan::nodes::{AlterLifetime, LifetimeChange, Node, node};
use whimbrel_plan::source_of;
use whimbrel_temporal::{DurationRule, StartRule};

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
            LogicalPlan::Extension(_) => check_node(step)?,
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

/// A node of one instant, or a window on a grid.
fn check_node(plan: &LogicalPlan) -> Result<()> {
    match node(plan) {
        Some(Node::Ingress(ingress)) if ingress.partitioning.is_some() => plan_err!(
            "emit changes within: the source has a clock for each {}, and how late a row is is told by one clock; leave \
             out partition_by, or within",
            ingress.partitioning.iter().flat_map(|of| &of.columns).cloned().collect::<Vec<_>>().join(", ")
        ),
        Some(Node::Ingress(ingress)) if ingress.time.end.is_none() => Ok(()),
        Some(
            Node::ReKey(_)
            | Node::Require(_)
            | Node::Exchange(_)
            | Node::Colocated(_)
            | Node::Combine(_)
            | Node::WithStart(_),
        ) => Ok(()),
        Some(Node::ChangeLifetimes(of)) if of.beats().is_some() => Ok(()),
        Some(Node::ChangeLifetimes(of)) if matches!(of.change, LifetimeChange::Hop(_)) => Ok(()),
        Some(Node::AlterLifetime(alter)) if is_window(alter) => Ok(()),
        _ => plan_err!(
            "emit changes within takes windows whose ends are known beforehand (tumble, hop, cumulate), and joins of rows of \
             one window; leave out within, so that nothing is forgotten"
        ),
    }
}

/// Whether lifetimes are windows on a grid.
fn is_window(alter: &AlterLifetime) -> bool {
    let on_ticks = matches!(*alter.start, StartRule::Snap { .. })
        && matches!(*alter.duration, DurationRule::Constant(_));
    on_ticks || is_cumulate(alter) || CalendarWindows::of_rules(&alter.start, &alter.duration).is_some()
}
