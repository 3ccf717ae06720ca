//! Options of a run. None of them changes the answer.

use crate::end::End;
use crate::progress::{LateRows, Progress};
use crate::scheduler::Scheduler;
use datafusion::common::Result;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::Instant;
use whimbrel_plan::Stream;
use whimbrel_temporal::{BATCH_ROWS, Message};

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

/// What becomes of the shards of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ResultShards {
    /// They have the rows that the plan says.
    #[default]
    Kept,
    /// They are put together, so a row may come in any of them.
    Merged,
}

/// How many bytes relational operators may hold in memory. Those that can spill write the rest to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Memory {
    /// As many as there are.
    #[default]
    Unlimited,
    /// So many by all channels of the query together. In which order a channel hands out its rows depends on
    /// what the others hold.
    Query(u64),
    /// So many by each channel. What a channel hands out depends on its input alone, so it can run again.
    Channel(u64),
}

/// Takes the messages of one shard of a result.
pub type Sink = Box<dyn FnMut(Message) -> Result<()> + Send>;

/// A query that a runtime has started.
pub trait Execution: Send {
    /// Waits for the end, or until an instant; whether the query has ended.
    ///
    /// # Errors
    /// The first error of any channel.
    fn wait(&mut self, until: Option<Instant>) -> Result<bool>;

    /// Lets it run without anybody who waits for it, if that can be done; what tells of its end then.
    ///
    /// # Errors
    /// `Plan` if this process cannot run it.
    fn detach(&mut self) -> Result<Option<Arc<End>>> {
        Ok(None)
    }
}

/// What it costs to bring rows from one channel to another that is in another process, beside what it costs
/// in one, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TransferCosts {
    /// Of each movement.
    pub movement: f64,
    /// Of each byte.
    pub byte: f64,
}

/// A plan of a query, and what other plans there were.
pub struct ChosenPlan {
    /// The plan.
    pub stream: Stream,
    /// All plans that a runtime has compared, this one among them; empty if it has not compared any.
    pub choices: Vec<PlanChoice>,
}

/// A plan of a query that a runtime has compared with others.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanChoice {
    /// In how many shards it was planned.
    pub shards: usize,
    /// How many tasks each stage has, those before others first: as many as there are shards, or another
    /// number in each stage.
    pub tasks: Vec<usize>,
    /// How long it is expected to take.
    pub seconds: f64,
    /// What it is expected to cost.
    pub dollars: f64,
    /// The memory that it is expected to use, in gigabytes, by seconds.
    pub gb_seconds: f64,
    /// Whether it was chosen.
    pub chosen: bool,
}

/// Plans that a runtime has compared, a line each; a star marks the chosen one.
pub fn choices_text(choices: &[PlanChoice]) -> String {
    let line = |(place, choice): (usize, &PlanChoice)| {
        let PlanChoice { shards, seconds, dollars, gb_seconds, .. } = choice;
        let mark = if choice.chosen { '*' } else { ' ' };
        // The first plan in a number of shards has as many tasks in each stage.
        let is_changed = choices[..place].iter().any(|before| before.shards == *shards);
        let tasks: Vec<String> = choice.tasks.iter().map(usize::to_string).collect();
        let stages = match is_changed {
            true => format!(" in stages of {} tasks", tasks.join(", ")),
            false => String::new(),
        };
        format!("  {mark} {shards} shards{stages}: {seconds:.2} s, ${dollars:.6}, {gb_seconds:.2} GB-s\n")
    };
    choices.iter().enumerate().map(line).collect()
}

/// Runs queries in other processes.
pub trait RemoteRuntime: Send + Sync {
    /// How many channels of a query run at the same time.
    fn cores(&self) -> usize;

    /// Chooses among plans of a query in several numbers of shards; `plan` plans it in so many.
    ///
    /// # Errors
    /// Those of `plan`; `Plan` if the query cannot run there.
    fn choose_plan(
        &self,
        _options: &Options,
        plan: &mut dyn FnMut(usize) -> Result<Stream>,
    ) -> Result<ChosenPlan> {
        Ok(ChosenPlan { stream: plan(self.cores())?, choices: vec![] })
    }

    /// What a query is expected to take and to cost there, as text; none where nobody knows. If `is_over`,
    /// what the last query has taken is beside it.
    ///
    /// # Errors
    /// `Plan` if it cannot run there.
    fn forecast(&self, _stream: &Stream, _options: &Options, _is_over: bool) -> Result<Option<String>> {
        Ok(None)
    }

    /// What the last query has cost, as text; none where queries cost nothing.
    fn last_cost(&self) -> Option<String> {
        None
    }

    /// What it costs to bring rows from one channel to another. Planners choose by it.
    fn transfer_costs(&self) -> TransferCosts {
        TransferCosts::default()
    }

    /// Starts a query whose result goes to these sinks, one for each shard. It ends early once its progress
    /// is cancelled.
    ///
    /// # Errors
    /// `Plan` if the query cannot run there; `Execution` if the other processes cannot be reached.
    fn start(
        &self,
        stream: &Stream,
        options: &Options,
        sinks: Vec<Sink>,
        progress: &Progress,
    ) -> Result<Box<dyn Execution>>;
}

/// Options of a run.
///
/// ```
/// use whimbrel_sharded::{Memory, Options, Output, RuntimeKind};
///
/// let runtime = RuntimeKind::Library;
/// let options = Options { runtime, memory: Memory::Query(1 << 30), ..Options::default() };
/// assert_eq!(options.cores(), 1);
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
    /// What becomes of the shards of the result.
    pub shards: ResultShards,
    /// How many messages a queue between two channels holds.
    pub queue_capacity: usize,
    /// What relational operators may hold in memory.
    pub memory: Memory,
    /// The callback for late rows.
    pub late: Option<LateRows>,
    /// The threads that run it, in library mode, in place of the one that waits for it.
    pub scheduler: Option<Arc<Scheduler>>,
    /// Where the query runs, if not in this process.
    pub remote: Option<Arc<dyn RemoteRuntime>>,
}

impl Options {
    /// How many channels of a query run at the same time.
    pub fn cores(&self) -> usize {
        self.remote.as_ref().map_or(self.runtime.cores(), |remote| remote.cores())
    }

    /// What it costs to bring rows from one channel to another, beside copying them.
    pub fn transfer_costs(&self) -> TransferCosts {
        self.remote.as_ref().map_or(TransferCosts::default(), |remote| remote.transfer_costs())
    }
}

impl Default for Options {
    /// On all cores, intervals.
    fn default() -> Options {
        Options {
            runtime: RuntimeKind::Local,
            batch_rows: BATCH_ROWS,
            output: Output::Intervals,
            shards: ResultShards::Kept,
            queue_capacity: 4,
            memory: Memory::Unlimited,
            late: None,
            scheduler: None,
            remote: None,
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
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}
