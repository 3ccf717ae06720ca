//! The progress bar of a query: on standard error, for queries that take a while.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};
use whimbrel_sharded::Job;

/// A query that ends sooner than this gets no bar.
const DELAY: Duration = Duration::from_millis(400);

/// The progress bar of one query. Dropping it clears the line.
///
/// ```no_run
/// # fn wait(job: &whimbrel_sharded::Job) -> Result<(), Box<dyn std::error::Error>> {
/// let mut progress = whimbrel_process::progress::QueryProgress::new(true);
/// while !job.wait_timeout(std::time::Duration::from_millis(50))? {
///     progress.update(job);
/// }
/// # Ok(())
/// # }
/// ```
pub struct QueryProgress {
    started: Instant,
    bar: Option<ProgressBar>,
    enabled: bool,
}

impl QueryProgress {
    /// A bar that appears once the query has taken a while. One that is not enabled never appears.
    pub fn new(enabled: bool) -> QueryProgress {
        QueryProgress { started: Instant::now(), bar: None, enabled }
    }

    /// Draws what the query has read and returned so far.
    pub fn update(&mut self, job: &Job) {
        if !self.enabled || self.started.elapsed() < DELAY {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| draw(job, self.started));
        bar.set_position(job.rows_read());
        let late = match job.rows_late() {
            0 => String::new(),
            late => format!(", {late} late"),
        };
        bar.set_message(format!("{} out{late}", job.rows_out()));
    }
}

impl Drop for QueryProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A bar where the number of rows is known, else a spinner.
fn draw(job: &Job, started: Instant) -> ProgressBar {
    let total = job.rows_total();
    let template = match total {
        Some(_) => {
            "{wide_bar:.cyan/dim} {percent}% of {human_len} rows, {per_sec}, {elapsed}, {eta} left, {msg}"
        }
        None => "{spinner} {human_pos} rows, {per_sec}, {elapsed}, {msg}",
    };
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    // The templates are constants. If one were wrong, the default style would do.
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.with_elapsed(started.elapsed())
}
