//! The progress bar: on standard error, for queries that take a while.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};
use whimbrel_sharded::Job;

/// How long a query may take without a bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// What shows how far a query has come.
pub struct Bar {
    since: Instant,
    bar: Option<ProgressBar>,
    wanted: bool,
}

impl Bar {
    /// A bar that appears if the query takes a while.
    pub fn new(wanted: bool) -> Bar {
        Bar { since: Instant::now(), bar: None, wanted }
    }

    /// Shows what the query has done so far.
    pub fn update(&mut self, job: &Job) {
        if !self.wanted || self.since.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| start(job, self.since));
        bar.set_position(job.rows_read());
        let late = match job.rows_late() {
            0 => String::new(),
            late => format!(", {late} late"),
        };
        bar.set_message(format!("{} out{late}", job.rows_out()));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn start(job: &Job, since: Instant) -> ProgressBar {
    let (bar, template) = match job.rows_total() {
        Some(total) => (
            ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()),
            "{wide_bar:.cyan/dim} {percent}% of {human_len} rows, {per_sec}, {elapsed}, {eta} left, {msg}",
        ),
        None => (
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            "{spinner} {human_pos} rows, {per_sec}, {elapsed}, {msg}",
        ),
    };
    // The templates are constants that indicatif reads; should it not, its own style is as good.
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.with_elapsed(since.elapsed())
}
