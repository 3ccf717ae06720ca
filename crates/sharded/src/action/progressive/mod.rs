//! Early results of a query over tables (trill.txt §7.4): the result over the part of its largest table that
//! has been read so far, again and again until it is final.

mod plan;
mod rows;

use super::collect::{Table, collect};
use crate::dataset::MemoryDataset;
use crate::options::Options;
use crate::runtime::{Job, Order, Sink, spawn, start};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, exec_err, plan_err, resources_datafusion_err};
use plan::ProgressivePlan;
use rows::Rows;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use whimbrel_plan::Stream;
use whimbrel_temporal::{INFINITY, Time};

/// An early result.
#[derive(Debug, Clone)]
pub struct EarlyResult {
    /// The share of the largest table that has been read, at most 1. The result is final if it is 1.
    pub share: f64,
    /// The result of the query over these rows, and all rows of the other tables.
    pub table: Table,
}

/// What came of waiting for the next result.
#[derive(Debug)]
pub enum Awaited {
    /// It is there.
    Result(EarlyResult),
    /// There is none yet.
    NotYet,
    /// The final one was the last.
    End,
}

/// A query that gives early results. Dropping it ends the query.
///
/// ```
/// use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use std::sync::Arc;
/// use whimbrel_plan::Stream;
/// use whimbrel_sharded::dataset::MemoryDataset;
/// use whimbrel_sharded::{Options, action};
///
/// let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
/// let rows = RecordBatch::try_from_iter([("n", column)])?;
/// let dataset = MemoryDataset::new(rows.schema(), vec![vec![rows]])?;
/// let query = Stream::scan("numbers", Arc::new(dataset))?.distinct()?;
/// let options = Options { batch_rows: 100, ..Options::default() };
/// for early in action::progressive(&query, &options, 5)? {
///     let early = early?;
///     assert_eq!(early.table.num_rows() as f64, 1000.0 * early.share);
/// }
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub struct Progressive {
    job: Arc<Job>,
    plan: ProgressivePlan,
    options: Options,
    results: Receiver<(f64, RecordBatch)>,
}

/// Starts a query over tables that gives early results, at most so many: one for each of so many equal parts
/// of its largest table, and the last one over all rows. It waits while nobody takes them.
///
/// # Errors
/// `Plan` if a source of the query does not end, rows have a time, or a step cannot be kept up to date;
/// as [`run`](crate::run).
pub fn progressive(query: &Stream, options: &Options, parts: u32) -> Result<Progressive> {
    if parts == 0 {
        return plan_err!("a query has one result at least");
    }
    if options.remote.is_some() {
        return plan_err!("early results come from this process; leave out on=");
    }
    let plan = ProgressivePlan::of(query, parts)?;
    let (send, results) = bounded(1);
    let shards = plan.changes.properties().shards;
    let rows = Arc::new(Mutex::new(Rows::new(plan.columns(), shards)?));
    let sinks = (0..shards).map(|shard| sink(shard, parts, Arc::clone(&rows), send.clone())).collect();
    let job = Arc::new(start(&plan.changes, options, Order::AsKnown, sinks)?);
    let running = Arc::clone(&job);
    // A runtime may run a query on the thread that waits for it. Its error is reported with the results.
    let wait = move || _ = running.wait();
    spawn(wait).map_err(|e| resources_datafusion_err!("no thread for a query with early results: {e}"))?;
    Ok(Progressive { job, plan, options: options.clone(), results })
}

/// Takes the changes of a shard, and sends the rows when all shards have come to another part.
fn sink(shard: usize, parts: u32, rows: Arc<Mutex<Rows>>, send: Sender<(f64, RecordBatch)>) -> Sink {
    Box::new(move |message| {
        let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(part) = rows.push(shard, message)? else { return Ok(()) };
        let share = share(part, parts);
        if share == 0.0 {
            return Ok(());
        }
        match send.send((share, rows.snapshot()?)) {
            Ok(()) => Ok(()),
            Err(_) => exec_err!("nobody waits for the result any more"),
        }
    })
}

/// The share of a table before a part.
fn share(part: Time, parts: u32) -> f64 {
    if part == INFINITY { 1.0 } else { part.max(0) as f64 / f64::from(parts) }
}

impl Progressive {
    /// The query, as a job.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// Waits for the next result until an instant.
    ///
    /// # Errors
    /// The first error of the query.
    pub fn wait_until(&mut self, until: Instant) -> Result<Awaited> {
        match self.results.recv_deadline(until) {
            Ok(early) => self.early_result(early).map(Awaited::Result),
            Err(RecvTimeoutError::Timeout) => Ok(Awaited::NotYet),
            Err(RecvTimeoutError::Disconnected) => self.job.wait().map(|()| Awaited::End),
        }
    }

    /// The result of the last steps over these rows.
    fn early_result(&self, (share, rows): (f64, RecordBatch)) -> Result<EarlyResult> {
        let rows = self.plan.result(MemoryDataset::new(rows.schema(), vec![vec![rows]])?)?;
        Ok(EarlyResult { share, table: collect(&rows, &self.options)?.wait()? })
    }
}

impl Drop for Progressive {
    fn drop(&mut self) {
        self.job.cancel();
    }
}

impl Iterator for Progressive {
    type Item = Result<EarlyResult>;

    /// The next result, or the first error of the query; none after the final result.
    fn next(&mut self) -> Option<Result<EarlyResult>> {
        match self.results.recv() {
            Ok(early) => Some(self.early_result(early)),
            Err(_) => self.job.wait().err().map(Err),
        }
    }
}
