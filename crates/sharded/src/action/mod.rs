//! What is done with a result (quill.txt §3.4): keep it in memory, store it, send it, or look at it as it
//! comes.
//!
//! An action starts its query at once, and hands out its result when the query has ended. Tables made of a
//! stream have the lifetimes of their rows as columns `start` and `end` before the others; a null end is one
//! that never came.

mod collect;
mod finish;
mod form;
mod partial;
mod storage;
mod stream;
mod subscribe;

pub use collect::{Materialized, Table, collect, to_memory};
pub use form::schema;
pub use partial::{Partial, remove_partial_files};
pub use storage::{Existing, to_storage};
pub use stream::to_binary_stream;
pub use subscribe::subscribe;

use crate::runtime::Job;
use datafusion::common::{Result, exec_err};

/// A query that runs for its result.
#[must_use = "a query stops when nobody waits for its result"]
pub struct Action<T> {
    job: Job,
    finish: Box<dyn FnOnce() -> Result<T> + Send + Sync>,
}

impl<T> Action<T> {
    fn new(job: Job, finish: impl FnOnce() -> Result<T> + Send + Sync + 'static) -> Action<T> {
        Action { job, finish: Box::new(finish) }
    }

    /// The query.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// The first that happened; `Execution` if the job was cancelled.
    pub fn wait(self) -> Result<T> {
        self.job.wait()?;
        if self.job.cancelled() {
            return exec_err!("the query was cancelled before it had ended, so there is no result");
        }
        (self.finish)()
    }
}
