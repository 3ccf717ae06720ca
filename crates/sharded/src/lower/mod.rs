//! From a stage's fragment to what runs: a graph of temporal operators, or a DataFusion plan with one
//! partition.
//!
//! Everything resolves by position: a node's expressions are made physical over the columns of its inputs, in
//! their order.

mod aggregate;
mod express;
mod join;
mod lifetime;
mod relational;
mod rows;
mod temporal;

pub(crate) use relational::{Fragment, in_order, session};
pub(crate) use temporal::graph;
