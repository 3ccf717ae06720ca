//! Plans run: rounds of requests, and what is done with the answers in between (piql.txt §7).
//!
//! A call owns all its state and nothing waits in a store between two calls. Three executors differ only in how the
//! requests of a round are handed to the store; the answers are the same.
//!
//! Invariant: one call of the store for each round of the parallel executor, however many requests there are; the
//! branches of a union go through their rounds together.

mod aggregate;
mod fetch;
mod interval;
mod local;
mod merging;
mod needed;
mod program;
mod rows;
mod run;

pub(crate) use program::Program;
pub(crate) use rows::{Call, beyond, held, typed};

pub use rows::Argument;

use crate::cursor::{Cursor, Place};
use crate::error::Result;
use crate::store::{Found, Operations, Read, Store};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use rows::Rows;

/// How the requests of a call are handed to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Executor {
    /// One row after the other, and no more of them than the result needs: the fewest requests, the most rounds.
    Lazy,
    /// One request after the other, each with its whole limit.
    Simple,
    /// All requests of a round at once: the fewest rounds.
    #[default]
    Parallel,
}

/// What a call returns.
#[derive(Debug, Clone)]
pub struct Page {
    /// The rows.
    pub batch: RecordBatch,
    /// Where the next page begins, if the query has pages and this one was full.
    pub cursor: Option<Cursor>,
    /// What was asked of the store for it.
    pub spent: Operations,
}

/// The rows of a call, and where the next page begins.
pub(crate) struct Answer {
    pub batch: RecordBatch,
    pub next: Option<Place>,
}

/// Runs a program.
pub(crate) fn run(program: &Program, call: &Call<'_>) -> Result<Answer> {
    let (rows, next) = match call.executor {
        Executor::Lazy => run::lazily(program, call)?,
        Executor::Simple | Executor::Parallel => run::in_rounds(program, call)?,
    };
    Ok(Answer { batch: program.output(rows)?, next })
}

/// Runs the steps of a program that ask nothing over rows that are there.
pub(crate) fn over(
    program: &Program,
    columns: &[ArrayRef],
    len: usize,
    call: &Call<'_>,
) -> Result<RecordBatch> {
    let rows = Rows { columns: columns.to_vec(), len };
    program.output(program.steps.iter().try_fold(rows, |rows, op| run::step(op, rows, call))?)
}

/// Asks the store as the executor does.
fn ask(store: &dyn Store, executor: Executor, requests: &[Read]) -> Result<Vec<Found>> {
    match executor {
        _ if requests.is_empty() => Ok(vec![]),
        Executor::Parallel => store.read(requests),
        Executor::Simple | Executor::Lazy => {
            let answers = requests.iter().map(|request| store.read(std::slice::from_ref(request)));
            Ok(answers.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        }
    }
}
