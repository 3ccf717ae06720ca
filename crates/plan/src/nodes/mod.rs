//! The extension nodes: what the algebra has beyond DataFusion's relational operators.
//!
//! One node, one file. Every node carries its output schema without functional dependencies: a key that is
//! unique in every snapshot of one shard is not unique after a window or an exchange, and DataFusion's
//! optimizer would rely on it. [`node`] tells which of ours a plan is; matches on [`Node`] are exhaustive, so
//! a new node cannot be forgotten.

mod accumulate;
mod allowed_lateness;
mod alter_lifetime;
mod change_lifetimes;
mod changes;
mod clip;
mod colocated;
mod combine;
mod detect;
mod exchange;
mod fill_gaps;
mod ingress;
mod match_recognize;
mod process;
mod rekey;
mod require;
mod session;
mod shape;
mod subtree;
mod with_start;

pub use accumulate::Accumulate;
pub use allowed_lateness::AllowedLateness;
pub use alter_lifetime::{AlterLifetime, lifetime_schema, start_schema};
pub use change_lifetimes::{ChangeLifetimes, HoppingWindows, LifetimeChange, QuantizeGrid};
pub use changes::{CHANGE, Changes};
pub use clip::Clip;
pub(crate) use colocated::join_of;
pub use colocated::{Colocated, Colocation};
pub use combine::Combine;
pub use detect::{Detect, DetectSettings};
pub use exchange::{Exchange, Movement, Scope};
pub use fill_gaps::{Fill, FillGaps};
pub use ingress::{Ingress, Partitioning, TimeSpec};
pub use match_recognize::MatchRecognize;
pub use process::{OperatorObject, Process};
pub use rekey::ReKey;
pub use require::{Assertion, Require};
pub use session::Session;
pub use subtree::Subtree;
pub use with_start::WithStart;

use crate::names::{column_name, index_of};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNode};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One of our nodes, found in a plan.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    /// Rows get lifetimes.
    Ingress(&'a Ingress),
    /// Lifetimes are moved and resized: every window.
    AlterLifetime(&'a AlterLifetime),
    /// The start of the lifetime becomes a column.
    WithStart(&'a WithStart),
    /// Lifetimes reach to the end of their session.
    Session(&'a Session),
    /// Lifetimes are cut, moved or put together.
    ChangeLifetimes(&'a ChangeLifetimes),
    /// Lifetimes are cut by the events of another stream.
    Clip(&'a Clip),
    /// Sequences of events are matched.
    Detect(&'a Detect),
    /// Sequences of rows are matched.
    MatchRecognize(&'a MatchRecognize),
    /// A user's operator runs over the rows.
    Process(&'a Process),
    /// Gaps of keys are filled.
    FillGaps(&'a FillGaps),
    /// What comes into a relation and leaves it.
    Changes(&'a Changes),
    /// Rows of a stream stay, and make up a relation that grows.
    Accumulate(&'a Accumulate),
    /// Late rows are dropped, and old ones forgotten.
    AllowedLateness(&'a AllowedLateness),
    /// The current key changes.
    ReKey(&'a ReKey),
    /// Something is asserted of the rows.
    Require(&'a Require),
    /// Rows that belong together lie together.
    Colocated(&'a Colocated),
    /// Rows of one group and instant are put together before they move.
    Combine(&'a Combine),
    /// Rows move between shards.
    Exchange(&'a Exchange),
}

/// The node of ours that this plan is, if it is one.
pub fn node(plan: &LogicalPlan) -> Option<Node<'_>> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    let any = extension.node.as_any();
    None.or_else(|| any.downcast_ref().map(Node::Ingress))
        .or_else(|| any.downcast_ref().map(Node::AlterLifetime))
        .or_else(|| any.downcast_ref().map(Node::WithStart))
        .or_else(|| any.downcast_ref().map(Node::Session))
        .or_else(|| any.downcast_ref().map(Node::ChangeLifetimes))
        .or_else(|| any.downcast_ref().map(Node::Clip))
        .or_else(|| any.downcast_ref().map(Node::Detect))
        .or_else(|| any.downcast_ref().map(Node::MatchRecognize))
        .or_else(|| any.downcast_ref().map(Node::Process))
        .or_else(|| any.downcast_ref().map(Node::FillGaps))
        .or_else(|| any.downcast_ref().map(Node::Changes))
        .or_else(|| any.downcast_ref().map(Node::Accumulate))
        .or_else(|| any.downcast_ref().map(Node::AllowedLateness))
        .or_else(|| any.downcast_ref().map(Node::ReKey))
        .or_else(|| any.downcast_ref().map(Node::Require))
        .or_else(|| any.downcast_ref().map(Node::Colocated))
        .or_else(|| any.downcast_ref().map(Node::Combine))
        .or_else(|| any.downcast_ref().map(Node::Exchange))
}

/// A plan that is this node.
pub fn extension(node: impl UserDefinedLogicalNode + 'static) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(node) })
}

/// The single input a rewrite hands to a node with one.
fn only_input(node: &str, inputs: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    match <[LogicalPlan; 1]>::try_from(inputs) {
        Ok([input]) => Ok(input),
        Err(inputs) => internal_err!("{node} has one input, a rewrite gave it {}", inputs.len()),
    }
}

/// The expressions a rewrite hands back have to be as many as the node gave out.
fn check_count(node: &str, given: &[Expr], own: usize) -> Result<()> {
    if given.len() != own {
        return internal_err!("{node} has {own} expressions, a rewrite gave it {}", given.len());
    }
    Ok(())
}

/// The places of columns of a plan.
///
/// # Errors
/// `Plan` if an expression is none.
fn key_places(input: &LogicalPlan, key: &[Expr]) -> Result<Vec<usize>> {
    let names = key.iter().map(|expr| column_name(expr).unwrap_or_default());
    names.map(|name| index_of(input.schema(), name)).collect()
}

/// The places of the columns that a step reads, and of those of its key.
fn columns_read(input: &LogicalPlan, read: &BTreeSet<String>, key: &[Expr]) -> Vec<usize> {
    let named = read.iter().map(String::as_str).chain(key.iter().filter_map(column_name));
    let places: BTreeSet<usize> = named.filter_map(|name| index_of(input.schema(), name).ok()).collect();
    places.into_iter().collect()
}

/// Expressions, comma-separated, for the one-line descriptions.
fn listed(exprs: &[Expr]) -> String {
    exprs.iter().map(crate::names::show).collect::<Vec<_>>().join(", ")
}
