//! Queries that read so little that they run in the process that asks: they are done before a function has
//! begun (serverless engines call that the small-query path).

use crate::bill::Finished;
use crate::billing::Metered;
use crate::tables::Tables;
use crate::usage::Usage;
use datafusion::common::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whimbrel_plan::Stream;
use whimbrel_sharded::runtime::{Progress, Sink};
use whimbrel_sharded::{Job, Options, run_sharded};
use whimbrel_temporal::Message;

/// How often a query is told that it was cancelled.
const POLL: Duration = Duration::from_millis(20);

/// A query that runs in this process.
pub struct SmallQuery {
    job: Job,
    progress: Progress,
    tables: Arc<Tables>,
    before: Usage,
}

impl SmallQuery {
    /// Starts a query.
    ///
    /// # Errors
    /// As [`run_sharded`].
    pub fn start(
        stream: &Stream,
        options: &Options,
        sinks: Vec<Sink>,
        progress: &Progress,
        tables: Arc<Tables>,
    ) -> Result<SmallQuery> {
        let before = tables.usage();
        let counted = |mut sink: Sink| -> Sink {
            let progress = progress.clone();
            Box::new(move |message| {
                if let Message::Batch(batch) = &message {
                    progress.add_rows_out(batch.len() as u64);
                }
                sink(message)
            })
        };
        let options = Options { remote: None, ..options.clone() };
        let job = run_sharded(stream, &options, sinks.into_iter().map(counted).collect())?;
        Ok(SmallQuery { job, progress: progress.clone(), tables, before })
    }
}

impl Metered for SmallQuery {
    fn wait(&mut self, until: Option<Instant>) -> Result<Option<(Result<()>, Finished)>> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let waited = self.job.wait_timeout(left.unwrap_or(POLL).min(POLL));
            self.progress.set_rows(self.job.rows_read(), self.job.rows_late());
            let outcome = match waited {
                Ok(false) if left == Some(Duration::ZERO) => return Ok(None),
                Ok(false) => {
                    if self.progress.cancelled() {
                        self.job.cancel();
                    }
                    continue;
                }
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            };
            let used = self.tables.usage().since(self.before);
            let usage = Usage { table_gets: used.gets, ..used };
            return Ok(Some((outcome, Finished { usage, ran_here: true, ..Finished::default() })));
        }
    }
}
