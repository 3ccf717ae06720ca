//! Rows in and out: indexes kept, limits and references held (piql.txt §7.2).
//!
//! A statement is a query for the rows that change, and a [`RowChange`](change::RowChange) for each of them.
//! How changes reach the store depends on what it can do:
//!
//! - `mutation::commit`: one conditional commit for the whole statement. Limits, references and uniqueness
//!   are exact.
//! - `ordered`: key by key, in the paper's order: new entries of indexes, the record by test-and-set, stale
//!   entries. A crash leaves at most entries without a record. Limits are counted after the write, and the
//!   write taken back if there are too many rows: as many rows as are being written at the same instant can
//!   be seen above a limit for that instant, and a writer that crashes between its write and its count leaves
//!   its row there. Unique keys are claimed before the record is written and settled behind it (`claim`).

mod bound;
mod build;
mod claim;
mod entry;
mod literals;
mod ordered;
mod progress;
mod repair;
mod statement;
mod target;

pub(crate) use bound::bound;
pub(crate) use build::build;
pub(crate) use progress::Progress;
pub use repair::Repaired;
pub(crate) use repair::repair;
pub(crate) use statement::write;
pub(crate) use target::{Target, plan_target, reference_indexes, returning_chain};
