//! How a query is run. Nothing here changes its answer.

use datafusion::arrow::record_batch::RecordBatch;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use whimbrel_temporal::BATCH_ROWS;

/// Where a query runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuntimeKind {
    /// On the thread that waits for it.
    Library,
    /// On all cores: a thread a channel.
    Local,
}

/// Asked for once: the answer is in files.
static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

impl RuntimeKind {
    /// How many shards of a query work at the same time.
    pub fn cores(self) -> usize {
        match self {
            RuntimeKind::Library => 1,
            RuntimeKind::Local => *CORES,
        }
    }
}

/// What form a stream's result has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// Lifetimes: an edge comes out once its end is known.
    Intervals,
    /// Everything as it becomes known: intervals, edges, punctuations.
    Events,
}

/// Told of rows that came too late, as they were in their source.
pub type LateRows = Arc<dyn Fn(RecordBatch) + Send + Sync>;

/// How a query is run.
#[derive(Clone)]
pub struct Options {
    /// Where.
    pub runtime: RuntimeKind,
    /// The most rows that are read at once.
    pub batch_rows: usize,
    /// The form of the result.
    pub output: Output,
    /// How many messages may wait between two channels.
    pub queue_capacity: usize,
    /// How many bytes the relational operators of the query may hold in memory, together; those that can,
    /// write to disk what is more.
    pub memory_limit: Option<usize>,
    /// Gets the rows that came too late.
    pub late: Option<LateRows>,
}

impl Default for Options {
    /// On all cores, intervals.
    fn default() -> Options {
        Options {
            runtime: RuntimeKind::Local,
            batch_rows: BATCH_ROWS,
            output: Output::Intervals,
            queue_capacity: 4,
            memory_limit: None,
            late: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("runtime", &self.runtime)
            .field("batch_rows", &self.batch_rows)
            .field("output", &self.output)
            .field("queue_capacity", &self.queue_capacity)
            .field("memory_limit", &self.memory_limit)
            .finish_non_exhaustive()
    }
}
