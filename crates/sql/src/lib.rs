//! SQL: from text to plans, and nothing runs here.
//!
//! A [`Session`] has tables, views, files by their paths, and settings. It plans statements one by one: a
//! [`Planned`] query is a [`Stream`](whimbrel_plan::Stream), the value that the fluent builder makes too, and
//! the caller runs it on any runtime.
//!
//! Layers, lowest first; a module uses only modules above it in this list:
//! - `files`: the interface of a caller that opens files and keeps rows;
//! - `functions`: scalar functions that DataFusion does not have, and the names of all functions;
//! - `error`: an error with its place in the text;
//! - `tree`, `columns`, `single_shard`: walks over plans, names of columns, and one exchange;
//! - `syntax`: from text to a checked tree; nothing here knows of plans;
//! - `planner`: join order and shard planning, from plan to plan;
//! - `stream`: what is special to streams with time: windows, `asof` and interval joins, `emit`;
//! - `expr_planner`, `relation_planner`: extensions of DataFusion's planner, which know types and columns;
//! - `catalog`: what names stand for: tables, constraints, views, files;
//! - `rewrite`: the rules from DataFusion's plan to one that can run, in order;
//! - `session`: the front door: from statements, one by one, to what the caller has to do.
//!
//! Start at [`Session::plan`].
//!
//! Not here: reading files, running queries, printing results.

mod catalog;
mod columns;
mod error;
mod expr_planner;
mod files;
mod functions;
mod planner;
mod relation_planner;
mod rewrite;
mod session;
mod single_shard;
mod stream;
mod syntax;
mod tree;

pub use error::{is_missing, place, render};
pub use files::{FileOptions, Files, Format};
pub use functions::references::Functions;
pub use planner::Candidate;
pub use session::{Planned, Session, Store, StoreMode, Stored};
pub use syntax::desugar::{fetch_as_limit, like_pattern};
pub use syntax::parameters::Parameters;
pub use syntax::script::Statement;
pub use syntax::walk;
