//! SQL: from text to plans, and nothing runs here.
//!
//! A [`Session`] knows names: tables, views, files by their paths, settings. It takes statements one by one
//! and says what is to be done about each: a [`Planned`] query is a [`Stream`](whimbrel_plan::Stream), the same
//! value that the fluent builder makes, and whoever holds it runs it on whatever runtime there is.
//!
//! Layers, bottom up:
//! 1. [`Files`], [`Format`]: what a session asks of whoever can open a file;
//! 2. [`split`](Session::split), `dialect`: text to statements and to the tokens that the parser understands; `grammar`: what
//!    the parser takes and nothing else does is refused;
//! 3. `catalog`, `information`, `windows`, `asof`, `multisets`: names, functions, relations, as DataFusion's planner asks for them;
//!    `functions`: those that it does not have; `truth`, `times`, `slices`, `texts`: what depends on types; `zone`: the session's time zone; `emit`: when rows are
//!    handed out;
//! 4. `optimize`: DataFusion's analyzer and optimizer, then columns with plain, unique names; before that, what these have
//!    no join for (`single`, `beside`, `on`, `membership`, `decorrelate`); `moments`: whether a stream can say it; `interval`:
//!    what joins say of times, in lifetimes; `planner`: the order of joins, and the query in shards;
//! 5. [`Parameters`]: values for the places of a statement; [`Session`], `statement`: a statement to a [`Planned`]; `store`, `constraints`, `references`: rows into a table;
//! 6. [`render`]: an error with the place in the text that it is about.
//!
//! Start at [`Session::plan`].
//!
//! Not here: reading files, running queries, printing results.

mod aliases;
mod asof;
mod beside;
mod bindings;
mod casts;
mod catalog;
mod constraints;
mod decorrelate;
mod depth;
mod dialect;
mod division;
mod emit;
mod error;
mod files;
mod floats;
mod fresh;
mod functions;
mod grammar;
mod information;
mod interval;
mod lengths;
mod limits;
mod list_length;
mod membership;
mod moments;
mod multisets;
mod names;
mod natural;
mod on;
mod optimize;
mod overflow;
mod parameters;
mod pivots;
mod planned;
mod planner;
mod references;
mod renames;
mod schemas;
mod series;
mod session;
mod single;
mod slices;
mod split;
mod statement;
mod store;
mod texts;
mod times;
mod truth;
mod type_names;
mod views;
pub mod walk;
mod windows;
mod words;
mod zone;

pub use error::{place, render};
pub use files::{FileOptions, Files, Format};
pub use parameters::Parameters;
pub use planned::{Planned, Store, StoreMode, Stored};
pub use planner::Candidate;
pub use session::Session;
pub use split::Statement;
pub use words::{fetched, pattern};
