//! Lowers a stage to what runs: a graph of temporal operators, or a DataFusion plan with one partition.
//!
//! Columns resolve by position: the expressions of a node become physical over the columns of its inputs, in
//! their order.
//!
//! Temporal stages: `temporal` lowers a stage; `rows`, `lifetime`, `aggregate`, `grouping_sets`, `join`,
//! `window` and `top_k` lower its nodes; `replay` runs DataFusion's aggregates over rows that come and go.
//!
//! Relational stages: `relational` optimizes a plan over `leaf` nodes. Its physical rules are
//! `sequential_union`, `split_filters`, `direct_index` and `compact_views`; `sliding` and `sums` replace
//! aggregates of DataFusion; `row_pattern` looks for patterns in the rows of a partition.
//!
//! Both: `exprs`; `arithmetic`, with `integer`, `decimal`, `formula` and `canonical`, replaces operations of
//! DataFusion; `native` compiles expressions.

mod aggregate;
mod arithmetic;
mod canonical;
mod compact_views;
mod computed_lists;
mod decimal;
mod direct_index;
mod distinct_counts;
mod exprs;
mod filter;
mod filter_pushdown;
mod formula;
mod grouping_sets;
mod integer;
mod join;
mod leaf;
mod lifetime;
mod native;
mod pattern;
mod relational;
mod replay;
mod row_pattern;
mod rows;
mod sequential_union;
mod session_aggregate;
mod sliding;
mod specialize;
mod split_filters;
mod sums;
mod temporal;
mod top_k;
mod window;

pub(crate) use arithmetic::rewrite_arithmetic;
pub(crate) use leaf::{Leaf, LeafInfo};
#[cfg(test)]
pub(crate) use relational::with_idle_rules;
pub(crate) use relational::{Fragment, session};
pub(crate) use temporal::graph;
