//! The progress bar of a query: on standard error, for queries that take a while.

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
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
        let (read, elapsed) = (job.rows_read(), self.started.elapsed());
        bar.set_position(read);
        let late = match job.rows_late() {
            0 => String::new(),
            late => format!(", {late} late"),
        };
        let (rate, left) = (rate(read, elapsed), left(read, job.rows_total(), elapsed));
        bar.set_message(format!("{rate}{left}, {} out{late}", HumanCount(job.rows_out())));
    }
}

/// How many rows a query has read in a second, since it began. The bar's own rate takes the rows that were
/// read before it appeared for those of a moment.
fn rate(read: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    format!("{}/s", HumanCount((read as f64 / seconds).round() as u64))
}

/// How long the rest of the rows takes. Nobody knows what is left to do when all rows are read: they may be
/// joined with each other.
fn left(read: u64, total: Option<u64>, elapsed: Duration) -> String {
    match total {
        Some(total) if 0 < read && read < total => {
            let left = elapsed.mul_f64((total - read) as f64 / read as f64);
            format!(", {} left", HumanDuration(left))
        }
        _ => String::new(),
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
        Some(_) => "{wide_bar:.cyan/dim} {percent}% of {human_len} rows, {elapsed}, {msg}",
        None => "{spinner} {human_pos} rows, {elapsed}, {msg}",
    };
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    // The templates are constants. If one were wrong, the default style would do.
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.with_elapsed(started.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_whole_query() {
        assert_eq!(rate(50_000, Duration::from_millis(400)), "125,000/s");
        assert_eq!(rate(50_000, Duration::from_secs(10)), "5,000/s");
        assert_eq!(rate(0, Duration::ZERO), "0/s");
    }

    #[test]
    fn what_is_left_is_known_while_rows_are_read() {
        let elapsed = Duration::from_secs(2);
        assert_eq!(left(1, Some(5), elapsed), ", 8 seconds left");
        for (read, total) in [(0, Some(5)), (5, Some(5)), (6, Some(5)), (5, None)] {
            assert_eq!(left(read, total, elapsed), "");
        }
    }
}
