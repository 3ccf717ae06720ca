//! SQL: from text to plans, and nothing runs here.
//!
//! A [`Session`] knows names: tables, views, files by their paths, settings. It takes statements one by one
//! and says what is to be done about each: a [`Planned`] query is a [`Stream`](whimbrel_plan::Stream), the
//! same value that the fluent builder makes, and whoever holds it runs it on whatever runtime there is.
//!
//! Layers, lowest first; a module uses only those above it in this list:
//! - `files`: what a session asks of whoever can open a file;
//! - `functions`: scalar functions that DataFusion does not have, and the names of all functions;
//! - `error`: an error with the place in the text that it is about;
//! - `syntax`: from text to a checked tree; nothing here knows of plans;
//! - `tree`, `columns`, `single_shard`: walks over plans, names of columns, and one exchange;
//! - `planner`: shard planning and join order, from plan to plan;
//! - `stream`: what is special to streams with time: windows, `asof` and interval joins, `emit`;
//! - `expr_planner`, `relation_planner`: what DataFusion's planner asks for, where types and columns are
//!   known;
//! - `catalog`: what names stand for: tables, constraints, views, files;
//! - `rewrite`: the rules from DataFusion's plan to one that can run, in order;
//! - `session`: the front door: statements, one by one, to what is to be done.
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
mod shifts;
mod single_shard;
mod stream;
mod syntax;
mod tree;

pub use error::{place, render};
pub use files::{FileOptions, Files, Format};
pub use planner::Candidate;
pub use session::{Planned, Session, Store, StoreMode, Stored};
pub use syntax::desugar::{fetch_as_limit, like_pattern};
pub use syntax::parameters::Parameters;
pub use syntax::script::Statement;
pub use syntax::walk;
