//! Options of a run. None of them changes the answer.

use datafusion::arrow::record_batch::RecordBatch;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use whimbrel_temporal::BATCH_ROWS;

/// Where a query runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuntimeKind {
    /// All channels on the thread that waits for the job.
    Library,
    /// On all cores: one thread per channel.
    Local,
}

/// The number of cores, read once: the system keeps it in files.
static CORES: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

impl RuntimeKind {
    /// How many channels of a query run at the same time.
    pub fn cores(self) -> usize {
        match self {
            RuntimeKind::Library => 1,
            RuntimeKind::Local => *CORES,
        }
    }
}

/// The form of the result of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Output {
    /// Intervals: a row comes out once its end is known.
    Intervals,
    /// Events as they become known: intervals, edges, punctuations.
    Events,
}

/// A callback for rows that came too late, as they were in their source.
pub type LateRows = Arc<dyn Fn(RecordBatch) + Send + Sync>;

/// Options of a run.
///
/// ```
/// use whimbrel_sharded::{Options, Output, RuntimeKind};
///
/// let runtime = RuntimeKind::Library;
/// let options = Options { runtime, memory_limit: Some(1 << 30), ..Options::default() };
/// assert_eq!(options.runtime.cores(), 1);
/// assert_eq!(options.output, Output::Intervals);
/// ```
#[derive(Clone)]
pub struct Options {
    /// The runtime.
    pub runtime: RuntimeKind,
    /// The most rows of a batch that is read.
    pub batch_rows: usize,
    /// The form of the result.
    pub output: Output,
    /// How many messages a queue between two channels holds.
    pub queue_capacity: usize,
    /// How many bytes the relational operators of the query may hold in memory together. Operators that
    /// can spill write the rest to files.
    pub memory_limit: Option<usize>,
    /// The callback for late rows.
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
