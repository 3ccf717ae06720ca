//! SQL: from text to plans, and nothing runs here.
//!
//! A [`Session`] knows names: tables, views, files by their paths, settings. It takes statements one by one
//! and says what is to be done about each: a [`Planned`] query is a [`Stream`](whimbrel_plan::Stream), the same
//! value that the fluent builder makes, and whoever holds it runs it on whatever runtime there is.
//!
//! Layers, bottom up:
//! 1. [`Files`], [`Format`]: what a session asks of whoever can open a file;
//! 2. [`split`](Session::split), `dialect`: text to statements and to the tokens that the parser understands;
//! 3. `catalog`, `windows`, `asof`, `multisets`: names, functions, relations, as DataFusion's planner asks for them;
//!    `emit`: when rows are handed out;
//! 4. `optimize`: DataFusion's analyzer and optimizer, then columns with plain, unique names; before that, what these have
//!    no join for (`single`, `beside`, `scalars`, `membership`); `interval`: what joins say of times, in lifetimes;
//!    `planner`: the order of joins, and the query in shards;
//! 5. [`Session`], `statement`: a statement to a [`Planned`];
//! 6. [`render`]: an error with the place in the text that it is about.
//!
//! Start at [`Session::plan`].
//!
//! Not here: reading files, running queries, printing results.

mod aliases;
mod asof;
mod beside;
mod casts;
mod catalog;
mod constraints;
mod dialect;
mod division;
mod emit;
mod error;
mod files;
mod interval;
mod lengths;
mod membership;
mod multisets;
mod names;
mod optimize;
mod overflow;
mod planned;
mod planner;
mod scalars;
mod series;
mod session;
mod single;
mod split;
mod statement;
mod type_names;
mod views;
mod windows;
mod words;

pub use error::{place, render};
pub use files::{FileOptions, Files, Format};
pub use planned::{Planned, Store, StoreMode};
pub use planner::Candidate;
pub use session::Session;
pub use split::Statement;
