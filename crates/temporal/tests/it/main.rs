//! The temporal engine held against its definitions (DESIGN.md §6).
//!
//! `model` says what a stream means and when two are equal; `generate` makes streams and cuts them into
//! messages; `formula` and `plan` are expressions and queries that exist twice, as the engine's and as a
//! naive evaluator's; the evaluator is in `oracle`, of aggregates in `calls`, of patterns in `detection` and
//! `recognition`.
//! The other modules are the tests.

#![allow(clippy::unwrap_used)]

mod calls;
mod detection;
mod formula;
mod generate;
mod model;
mod oracle;
mod plan;
mod process;
mod recognition;

mod aggregate_functions;
mod aggregates;
mod chains;
mod checkpoints;
mod combine;
mod equal;
mod gaps;
mod groups;
mod ingress;
mod ingress_edges;
mod join;
mod large_batches;
mod lifetimes;
mod merge;
mod merge_join;
mod pattern;
mod regressions;
mod requirements;
mod row_pattern;
