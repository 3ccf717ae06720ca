//! Sharded streams: one plan, cut into stages, run by channel programs (quill.txt §3, §4).
//!
//! A query is a [`Stream`](whimbrel_plan::Stream): a plan over sharded sources. Here it is cut at its
//! movements of data, each stage is lowered once per channel, and a runtime carries messages between the
//! channels.
//!
//! Layers, bottom up:
//! 1. [`dataset`]: where rows come from: memory, files, live feeds;
//! 2. [`stage`]: the plan, cut;
//! 3. `lower`: a stage's fragment to temporal operators, or to DataFusion's;
//! 4. [`program`]: the one executable thing, a deterministic function of its lanes;
//! 5. [`exchange`] and [`merge`]: the two ends of a movement;
//! 6. [`runtime`]: schedulers of programs; [`runtime::run`] is the way in;
//! 7. [`action`]: what is done with a result; [`analyze`]: what a query is expected to do, and what it did.
//!
//! Start at [`action::collect`], follow it to [`runtime::run_sharded`], then read `runtime/wiring.rs`.
//!
//! Not here: what operators do (whimbrel-temporal), what queries mean (whimbrel-plan), other machines.

pub mod action;
pub mod analyze;
pub mod dataset;
pub mod error;
pub mod exchange;
pub mod merge;
pub mod program;
pub mod relation;
pub mod runtime;
pub mod stage;

mod lower;
mod metrics;
mod options;
mod unary;

pub use options::{LateRows, Options, Output, RuntimeKind};
pub use runtime::{Job, Progress, run, run_sharded};
