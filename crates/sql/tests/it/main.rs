//! SQL, planned and run.
#![allow(missing_docs, clippy::unwrap_used)]

mod asof;
mod calendar_windows;
mod changes;
mod depth;
mod errors;
mod planner;
mod relations;
mod statements;
mod support;
mod windows;
