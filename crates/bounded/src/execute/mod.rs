//! Execution of plans: rounds of requests to the store, and local operators between them (piql.txt §7).
//!
//! A call owns all its state, and leaves nothing in the store. The three executors differ only in how the
//! requests of a round are sent; the rows are the same.
//!
//! 1. `executor`, `call`, `page`: how a call is made, and what it returns;
//! 2. `rows`, `local`, `aggregate`: rows, and local operators on them;
//! 3. `interval`, `hit`, `merging`, `fetch`: the remote operator;
//! 4. `needed`, `program`: a plan made ready to run;
//! 5. `run`: a program run.
//!
//! Invariant: the parallel executor calls the store once for each round, however many requests there are. The
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
