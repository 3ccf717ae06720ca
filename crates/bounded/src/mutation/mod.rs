//! Changes of rows, and how they reach a store that commits as a whole (piql.txt §7.2).
//!
//! 1. `kind`, `versions`: what a statement does with its rows, and the numbers that their records get;
//! 2. `change`: what a change of one row touches: its record, its entries, its limits and references;
//! 3. `commit`: changes in one conditional commit;
//! 4. `scan`, `erase`: the keys of an index, to read them or to take them away.

mod change;
mod commit;
mod erase;
mod kind;
mod scan;
mod versions;

pub(crate) use change::{
    AddedEntry, CountedRange, RowChange, check_distinct_keys, duplicate_key, has_values, values_text,
};
pub(crate) use commit::commit;
pub(crate) use erase::erase;
pub(crate) use kind::{WriteKind, WriteOutcome};
pub(crate) use scan::each_piece;
pub(crate) use versions::Versions;
