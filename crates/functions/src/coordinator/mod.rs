//! The coordinator: it invokes the tasks of a query as their inputs become ready, and hands out the result.
//!
//! It runs in the process that asks for the answer. `units` says what work there is, `schedule` decides what
//! is invoked when, `job` does it, `ledger` writes down what that takes, `stage_cache` finds what earlier
//! queries have left, `result` reads what came out. Whatever is decided, the answer is the same.
//!
//! Layers, lowest first: `keys`, `pending_clean_up`; `units`; `ledger`, `schedule`, `stage_cache`, `result`;
//! `job`.

mod job;
mod keys;
mod ledger;
mod pending_clean_up;
mod result;
mod schedule;
mod stage_cache;
mod units;

pub use job::{Board, JobSettings, Start, start};
pub use keys::{QUERIES, STAGES};
pub use pending_clean_up::wait_for_clean_up;
pub use schedule::ScheduleSettings;
#[cfg(test)]
pub use units::Units;
pub use units::{CombineCosts, Combining, Groups};
