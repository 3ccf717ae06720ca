//! From a stage's fragment to what runs: a graph of temporal operators, or a DataFusion plan with one
//! partition.
//!
//! Everything resolves by position: a node's expressions are made physical over the columns of its inputs, in
//! their order.

mod aggregate;
mod arithmetic;
mod canonical;
mod compact_views;
mod decimal;
mod express;
mod filters;
mod fold;
mod grouping;
mod groups;
mod integer;
mod join;
mod leaf;
mod lifetime;
mod order;
mod relational;
mod replay;
mod rows;
mod sequential_union;
mod sliding;
mod sums;
mod temporal;
mod window;

pub(crate) use arithmetic::ours;
pub(crate) use leaf::{Leaf, LeafInfo};
pub(crate) use relational::{Fragment, session};
pub(crate) use temporal::graph;
