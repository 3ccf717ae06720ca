//! Actions: what is done with a result (quill.txt §3.4). It is kept in memory, stored, sent, or handed to
//! a callback.
//!
//! An action starts its query at once, and gives its result when the query has ended. Tables of a stream
//! have the lifetimes of their rows as columns `start` and `end` before the others; a row that never ends
//! has a null end.

mod assemble;
mod collect;
mod epochs;
mod partial;
mod progressive;
mod publish;
mod storage;
mod stored;
mod stream;
mod subscribe;
mod table_format;

pub use collect::{Materialized, Table, collect, to_memory};
pub use epochs::{EpochPlan, EpochQuery, EpochRuntime, REPORTS, check_in_epochs, in_epochs};
pub use partial::{Partial, remove_partial_files};
pub use progressive::{Awaited, EarlyResult, Progressive, progressive};
pub use publish::{Published, publish};
pub use storage::{Existing, to_storage};
pub use stored::StoredResult;
pub use stream::to_binary_stream;
pub use subscribe::subscribe;
pub use table_format::schema;

use crate::runtime::Job;
use datafusion::common::{Result, exec_err};

/// A query that runs for its result.
///
/// ```
/// use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use std::sync::Arc;
/// use whimbrel_plan::Stream;
/// use whimbrel_sharded::dataset::MemoryDataset;
/// use whimbrel_sharded::{Options, action};
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// let rows = RecordBatch::try_from_iter([("n", column)])?;
/// let dataset = MemoryDataset::new(rows.schema(), vec![vec![rows]])?;
/// let query = Stream::scan("numbers", Arc::new(dataset))?.distinct()?;
/// let table = action::collect(&query, &Options::default())?.wait()?;
/// assert_eq!(table.num_rows(), 3);
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[must_use = "a query stops when nobody waits for its result"]
pub struct Action<T> {
    job: Job,
    finish: Box<dyn FnOnce() -> Result<T> + Send + Sync>,
}

impl<T> Action<T> {
    /// The action of a job that has been started; `finish` makes its result.
    fn new(job: Job, finish: impl FnOnce() -> Result<T> + Send + Sync + 'static) -> Action<T> {
        Action { job, finish: Box::new(finish) }
    }

    /// The query, as a job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// The first error of the query; `Execution` if the job was cancelled.
    pub fn wait(self) -> Result<T> {
        self.job.wait()?;
        if self.job.cancelled() {
            return exec_err!("the query was cancelled before it had ended, so there is no result");
        }
        (self.finish)()
    }
}
