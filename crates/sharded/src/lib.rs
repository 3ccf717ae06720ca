//! Sharded streams: one plan, cut into stages, run by channel programs (quill.txt §3, §4).
//!
//! A query is a [`Stream`](whimbrel_plan::Stream): a plan over sharded sources. Here it is cut into
//! stages at its exchanges, each stage is lowered to a program per channel, and a runtime carries
//! messages between the channels.
//!
//! Layers, lowest first; each module uses only modules above it in this list:
//! 1. `unavailable`, [`error`]: errors, sorted by their remedy;
//! 2. `progress`, [`End`]: how far a query is, and how it ended; [`Scheduler`]: threads for many queries;
//!    `options`: how one is run: [`Options`];
//! 3. [`relation`]: rows without time as messages;
//! 4. [`FolderLock`]: one process a folder; `compact`: rows that hold no memory of others; `unary`,
//!    `substitute`, `substitute_expr`: physical operators over one input, and operators and expressions in
//!    place of DataFusion's; `texts`, `float_range`: comparisons with constants;
//! 5. `metrics`: rows, bytes and time, measured;
//! 6. [`dataset`]: where rows come from: memory, files, live senders;
//! 7. [`stage`]: a plan, cut into stages;
//! 8. [`exchange`]: the sending end of an exchange, partitioners;
//! 9. [`merge`]: the receiving end, a merge by time;
//! 10. `lower`: a stage to a graph of temporal operators, or to a DataFusion plan;
//! 11. [`program`]: channel programs, deterministic functions of their lanes;
//! 12. `spec`: a query as another process runs it: [`JobSpec`];
//! 13. [`runtime`]: schedulers of programs;
//! 14. [`action`]: what is done with a result;
//! 15. [`analyze`]: the tree of a query, with estimates and measurements;
//! 16. [`replay`]: channels that run again from their tapes.
//!
//! Start at [`action::collect`], follow it to [`runtime::run_sharded`], then read `runtime/channel.rs`.
//! For a runtime of one's own, start at [`program::Programs`] and [`program::ChannelProgram`].
//!
//! Not here: what operators do (whimbrel-temporal), what queries mean (whimbrel-plan), other machines.

pub mod action;
pub mod analyze;
pub mod dataset;
pub mod error;
pub mod exchange;
pub mod merge;
pub mod program;
pub mod relation;
pub mod replay;
pub mod runtime;
pub mod stage;

mod compact;
mod end;
mod float_range;
mod folder_lock;
mod lower;
mod metrics;
mod options;
mod progress;
mod scheduler;
mod spec;
mod substitute;
mod substitute_expr;
mod texts;
mod unary;
mod unavailable;

pub use end::End;
pub use folder_lock::FolderLock;
pub use options::{Memory, Options, Output, ResultShards, RuntimeKind};
pub use progress::LateRows;
pub use runtime::{ChannelState, Job, Marker, PacedSource, Progress, Report, run, run_sharded};
pub use scheduler::{Scheduler, for_this_thread};
pub use spec::JobSpec;
