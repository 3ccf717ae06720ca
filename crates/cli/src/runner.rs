//! Runs one plan: its rows go to a writer as they come, the progress bar moves, and Ctrl-C stops it.

use crate::arguments::JobSettings;
use crate::error::{Error, Result, print_message};
use crate::interrupt::Interrupts;
use crate::output::{FileOptions, OutputOptions, ResultWriter, Target};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;
use whimbrel_plan::Stream;
use whimbrel_process::progress::QueryProgress;
use whimbrel_session::{Destination, RunningQuery, Session, start_job};

/// How often Ctrl-C is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs plans in the foreground.
pub struct Runner {
    /// Whether a progress bar is shown.
    pub progress: bool,
    /// Receives Ctrl-C.
    pub interrupts: Interrupts,
}

/// What a query has read and returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows read from sources.
    pub read: u64,
    /// Rows of the result.
    pub out: u64,
}

impl Runner {
    /// Runs a query and calls `rows` with its batches, those of a timed stream in the order of time.
    ///
    /// # Errors
    /// `Query` if it fails; `Interrupted`.
    pub fn for_each_batch(
        &self,
        session: &Session,
        stream: &Stream,
        sql: &str,
        progress: bool,
        rows: impl FnMut(RecordBatch) -> Result<(), DataFusionError> + Send + 'static,
    ) -> Result<RowCounts> {
        let _watch = self.interrupts.watch();
        let query = session.start(stream, rows);
        let query = query.map_err(|error| Error::in_statement(&error, sql))?;
        self.wait(&query, sql, progress)?;
        let job = query.job();
        match job.rows_late() {
            0 => {}
            1 => print_message("1 row came too late"),
            late => print_message(&format!("{late} rows came too late")),
        }
        Ok(RowCounts { read: job.rows_read(), out: job.rows_out() })
    }

    /// Runs a query and writes its rows to a target.
    ///
    /// # Errors
    /// As [`for_each_batch`](Runner::for_each_batch); `Query` if the target cannot be written.
    pub fn run_to_target(
        &self,
        session: &Session,
        stream: &Stream,
        sql: &str,
        target: &mut Target,
        output: &OutputOptions,
    ) -> Result<RowCounts> {
        // From here on there may be a partial file, which has to be removed if the query is interrupted.
        let _watch = self.interrupts.watch();
        let writer = target.open(&session.schema(stream), output, &FileOptions::default())?;
        // A bar and rows on one terminal would overwrite each other.
        let progress = self.progress && !target.streams_to_terminal(output);
        self.run_to_writer(session, stream, sql, progress, writer)
    }

    /// Runs a query into an open writer, and finishes it.
    ///
    /// # Errors
    /// As [`run_to_target`](Runner::run_to_target).
    pub fn run_to_writer(
        &self,
        session: &Session,
        stream: &Stream,
        sql: &str,
        progress: bool,
        writer: ResultWriter,
    ) -> Result<RowCounts> {
        let writer = Arc::new(Mutex::new(Some(writer)));
        let sink = writer.clone();
        let result = self.for_each_batch(session, stream, sql, progress, move |batch| {
            match sink.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                Some(writer) => writer.write(&batch),
                None => Ok(()),
            }
        });
        // The lock is taken only by a query that was interrupted while it writes to a pipe that nobody
        // reads.
        let writer = match writer.try_lock() {
            Ok(mut writer) => writer.take(),
            Err(TryLockError::Poisoned(writer)) => writer.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        let Some(writer) = writer else { return result };
        match result {
            Ok(counts) => writer.finish().map(|()| counts),
            Err(_) if writer.is_closed() => Err(Error::OutputClosed),
            Err(error) => Err(error),
        }
    }

    /// Waits for the end of a query. Ctrl-C cancels it.
    ///
    /// # Errors
    /// `Query` if it fails; `Interrupted`.
    pub fn wait(&self, query: &RunningQuery, sql: &str, progress: bool) -> Result {
        let mut progress = QueryProgress::new(progress);
        loop {
            let ended = query.wait_timeout(POLL_INTERVAL);
            if self.interrupts.pressed() {
                query.job().cancel();
                return Err(Error::Interrupted);
            }
            if ended.map_err(|error| Error::in_statement(&error, sql))? {
                return Ok(());
            }
            progress.update(query.job());
        }
    }

    /// Runs a query as a job that survives crashes, until its sources end or Ctrl-C is pressed.
    ///
    /// # Errors
    /// `Query` if it fails, or its state cannot be used; `Interrupted`.
    pub fn run_job(&self, session: &Session, stream: &Stream, sql: &str, job: &JobSettings) -> Result {
        let failed = |error: &DataFusionError| Error::in_statement(error, sql);
        let _watch = self.interrupts.watch();
        let to = Destination::Place(job.to.clone(), job.format);
        let running =
            start_job(stream, &session.options, &job.options, to).map_err(|error| failed(&error))?;
        if let Some(epoch) = running.restored_from() {
            print_message(&format!("goes on behind epoch {epoch}"));
        }
        if running.damaged_checkpoints() > 0 {
            print_message("a checkpoint was damaged; an older one is used");
        }
        loop {
            let ended = running.wait_timeout(POLL_INTERVAL).map_err(|error| failed(&error))?;
            if ended {
                break;
            }
            if self.interrupts.pressed() {
                running.stop();
                running.wait().map_err(|error| failed(&error))?;
                return Err(Error::Interrupted);
            }
        }
        let rows = running.progress();
        print_message(&format!(
            "{} rows read, {} rows out, {} rows too late, up to epoch {}",
            rows.rows_read(),
            rows.rows_out(),
            rows.rows_late(),
            running.committed()
        ));
        Ok(())
    }
}
