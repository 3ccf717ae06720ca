//! The temporal engine: columnar, incremental, embeddable.
//!
//! A stream is a changing relation (trill.txt §3, §5), presented as [`Batch`]es of rows in the order in which
//! they become known, and punctuations that say how far time has come. Operators are push-based state
//! machines without I/O, threads or clock; a [`Graph`] of them runs on the thread that feeds it, is saved and
//! restored at any point, and gives the same answer however its input was cut into batches.
//!
//! Layers, bottom up:
//! 1. [`time`], [`rules`]: instants, kinds of row, the words in which queries speak of windows;
//! 2. [`Batch`], [`Key`], [`places`], [`RowFilter`], [`leading`], [`interpolate()`]: columns; group
//!    numbers and [`TimeMerge`];
//! 3. [`operators`]: one file each; `operators/aggregate` is the snapshot aggregate with its accumulators;
//! 4. [`Ingress`], [`egress`]: tables to streams and back;
//! 5. [`Graph`]: operators wired together;
//! 6. [`checkpoint`]: what each of them holds, as bytes.
//!
//! Start at [`Operator`], then read `operators/where_.rs` and `operators/exists.rs`.
//!
//! Not here: plans and names of columns (whimbrel-plan), threads, files and shards (whimbrel-sharded).

pub mod rules;
pub mod time;
mod time_column;

mod activity;
mod batch;
mod carry;
pub mod checkpoint;
pub mod egress;
mod graph;
mod groups;
mod held;
mod ingress;
mod interpolate;
mod key;
mod merge;
pub mod operator;
pub mod operators;
mod pieces;
pub mod places;
mod row_filter;
mod runs;
mod synopsis;
mod values;

pub use activity::{NodeActivity, NodeProgress};
pub use batch::{Batch, Message, Other};
pub use carry::Carry;
pub use graph::{Graph, NodeId};
pub use held::Held;
pub use ingress::{Ingress, Sortedness, TimeColumns};
pub use interpolate::interpolate;
pub use key::Key;
pub use merge::TimeMerge;
pub use operator::Operator;
pub use row_filter::RowFilter;
pub use rules::{
    BATCH_ROWS, Closed, Disorder, DurationRule, IngressOptions, Lifetimes, OnCompleted, Punctuate, StartRule,
};
pub use runs::leading;
pub use time::{BEGINNING, INFINITY, Instant, Kind, Time, unit_of};
pub use values::Column;
