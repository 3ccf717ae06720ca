//! Runs one plan: rows go to whoever wants them as they come, the progress bar moves, and Ctrl-C stops it.

use crate::failure::{Failure, Outcome, said};
use crate::interrupt::Interrupts;
use crate::output::{Look, Shown, Target, Writing};
use crate::progress::Bar;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, internal_err};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;
use whimbrel_plan::Stream;
use whimbrel_plan::nodes::Scope;
use whimbrel_sharded::{Job, Options, action};

/// How often Ctrl-C is looked at.
const TICK: Duration = Duration::from_millis(50);

/// Runs plans.
pub struct Runner {
    /// How they are run.
    pub options: Options,
    /// Whether to show how far they have come.
    pub progress: bool,
    /// Who listens for Ctrl-C.
    pub interrupts: Interrupts,
}

/// What is known of a query that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Rows read from sources.
    pub read: u64,
    /// Rows of the result.
    pub out: u64,
}

impl Runner {
    /// The columns of a result.
    pub fn schema(&self, stream: &Stream) -> SchemaRef {
        action::schema(stream, &self.options)
    }

    /// Runs a query and calls back with its rows: those of a timed stream in the order of time.
    pub fn each(
        &self,
        stream: &Stream,
        sql: &str,
        progress: bool,
        rows: impl FnMut(RecordBatch) -> Result<()> + Send + 'static,
    ) -> Outcome<Counts> {
        let _watch = self.interrupts.watch();
        let mut rows = rows;
        let job = in_one_piece(stream)
            .and_then(|stream| action::subscribe(&stream, &self.options, move |_, batch| rows(batch)))
            .map_err(|error| Failure::of(&error, sql))?;
        let job = Arc::new(job);
        self.wait(&job, sql, progress)?;
        match job.rows_late() {
            0 => {}
            late => eprintln!("{late} {} too late", if late == 1 { "row came" } else { "rows came" }),
        }
        Ok(Counts { read: job.rows_read(), out: job.rows_out() })
    }

    /// Runs a query and shows its rows.
    pub fn show(&self, stream: &Stream, sql: &str, target: &mut Target, look: &Look) -> Outcome<Counts> {
        // From here on there is a file that has to go if the query is interrupted.
        let _watch = self.interrupts.watch();
        let schema = self.schema(stream);
        let shown = target.open(&schema, look, &Writing::default())?;
        // A bar and rows on one terminal would write over each other.
        let progress = self.progress && !target.rows_run_over_terminal(look);
        self.write(stream, sql, progress, shown)
    }

    /// Runs a query into something that is open already, and ends that.
    pub fn write(&self, stream: &Stream, sql: &str, progress: bool, shown: Shown) -> Outcome<Counts> {
        let shown = Arc::new(Mutex::new(Some(shown)));
        let sink = shown.clone();
        let ran = self.each(stream, sql, progress, move |batch| {
            match sink.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                Some(shown) => shown.write(&batch),
                None => Ok(()),
            }
        });
        // Only a query that was interrupted may still be writing: into a pipe that nobody reads.
        let shown = match shown.try_lock() {
            Ok(mut shown) => shown.take(),
            Err(TryLockError::Poisoned(shown)) => shown.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        let Some(shown) = shown else { return ran };
        match ran {
            Ok(counts) => shown.finish().map(|()| counts),
            Err(_) if shown.closed() => Err(Failure::Closed),
            Err(failure) => Err(failure),
        }
    }

    /// Waits for the end of a query.
    ///
    /// A thread of its own waits for the query, and so runs it in library mode: an operator may compute for
    /// long before it looks up, and this thread is to hear Ctrl-C meanwhile.
    pub fn wait(&self, job: &Arc<Job>, sql: &str, progress: bool) -> Outcome {
        let (told, ended) = channel();
        let waiting = job.clone();
        let thread = std::thread::Builder::new().name("query".into());
        // Nobody listens any more if it was interrupted.
        let thread = thread.spawn(move || drop(told.send(guarded(|| waiting.wait()))));
        thread.map_err(|error| Failure::io("no thread for the query", &error))?;
        let mut bar = Bar::new(progress);
        loop {
            let ended = ended.recv_timeout(TICK);
            if self.interrupts.pressed() {
                job.cancel();
                return Err(Failure::Interrupted);
            }
            match ended {
                Ok(outcome) => return outcome.map_err(|error| Failure::of(&error, sql)),
                Err(RecvTimeoutError::Timeout) => bar.update(job),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Query("the query's thread ended without a word".into()));
                }
            }
        }
    }
}

/// Several timed shards come together in the order of time; a relation has none, and its shards are taken as
/// they come.
fn in_one_piece(stream: &Stream) -> Result<Stream> {
    let known = stream.properties();
    match known.shards > 1 && known.time.is_some() {
        true => stream.reshard(Some(1), Scope::Global),
        false => Ok(stream.clone()),
    }
}

/// Runs a piece of a query; a panic is our bug, and an error like others.
fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    // What the panic left half done belongs to a job that is not used any more.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| internal_err!("{}", said(&*panic)))
}
