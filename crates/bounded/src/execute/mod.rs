//! Plans run: rounds of requests, and what is done with the answers in between (piql.txt §7).
//!
//! A call owns all its state and nothing waits in a store between two calls. Three executors differ only in how the
//! requests of a round are handed to the store; the answers are the same.
//!
//! Invariant: one call of the store for each round of the parallel executor, however many requests there are; the
//! branches of a union go through their rounds together.

mod aggregate;
mod call;
mod executor;
mod fetch;
mod hit;
mod interval;
mod local;
mod merging;
mod needed;
mod page;
mod program;
mod rows;
mod run;

pub(crate) use call::Call;
pub use executor::Executor;
pub use page::Page;
pub(crate) use program::Program;
pub(crate) use run::{run, run_local_steps};
