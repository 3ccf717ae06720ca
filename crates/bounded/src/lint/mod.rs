//! The compiler as a check for pull requests: a schema and the queries of an application as files, no store,
//! no rows.
//!
//! 1. `lock`: the bounds as they were agreed to;
//! 2. `report`: what there is to say of a query, as a [`Finding`] with a place;
//! 3. `dump`, `names`, `tables`, `postgres`: the schema of an ordinary PostgreSQL application;
//! 4. `check`: every query compiled, and compared with the lock file.
//!
//! Invariant: what is found depends on the files alone, so a laptop and a build server find the same.

mod check;
mod dump;
mod lock;
mod names;
mod postgres;
mod report;
mod tables;

pub use crate::syntax::{Place, Source};
pub use check::check;
pub use lock::{Lock, Locked};
pub use report::{Checked, Finding, Input, RULES, Report, Rule};
