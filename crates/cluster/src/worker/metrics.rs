//! What a worker has done since it was started, and does now, in the text format of Prometheus.
//!
//! Invariant: what is called a total never falls. A channel that is dropped leaves what it has counted
//! behind.

use super::launch::RunCounts;
use super::registration::Registration;
use crate::backup::Backup;
use crate::budget::Budget;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Something that counts while it runs.
pub trait Counted: Send + Sync {
    /// What it has done so far.
    fn counts(&self) -> RunCounts;
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It came to its end.
    Ended,
    /// It failed.
    Failed,
    /// Nobody needed it any more.
    Stopped,
}

/// The counters of a worker.
#[derive(Default)]
pub struct Metrics {
    running: AtomicU64,
    outcomes: [AtomicU64; 3],
    live_jobs: AtomicUsize,
    runs: Mutex<Runs>,
}

/// The channels that count.
#[derive(Default)]
struct Runs {
    /// What those have done that were dropped.
    dropped: RunCounts,
    current: Vec<Arc<dyn Counted>>,
}

/// A channel that runs.
pub struct Running {
    metrics: Arc<Metrics>,
    outcome: Outcome,
}

impl Running {
    /// Says how the run ended; unless it is said, it was stopped.
    pub fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.metrics.running.fetch_sub(1, Ordering::Relaxed);
        self.metrics.outcomes[self.outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// A channel begins to run.
    pub fn begin(self: &Arc<Metrics>) -> Running {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running { metrics: Arc::clone(self), outcome: Outcome::Stopped }
    }

    /// Counts what a run counts.
    pub fn add(&self, run: Arc<dyn Counted>) {
        self.lock().current.push(run);
    }

    /// Keeps what a run has counted, which is dropped.
    pub fn retire(&self, run: &Arc<dyn Counted>) {
        let mut runs = self.lock();
        if let Some(at) = runs.current.iter().position(|current| Arc::ptr_eq(current, run)) {
            let counts = runs.current.swap_remove(at).counts();
            runs.dropped = runs.dropped + counts;
        }
    }

    /// How many live jobs the worker hosts from now on.
    pub fn set_live_jobs(&self, jobs: usize) {
        self.live_jobs.store(jobs, Ordering::Relaxed);
    }

    /// What all runs have done.
    fn counts(&self) -> RunCounts {
        let runs = self.lock();
        runs.current.iter().fold(runs.dropped, |sum, run| sum + run.counts())
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The metrics of a worker, in the text format of Prometheus, version 0.0.4.
    pub fn text(&self, registration: &Registration, backup: &Backup) -> String {
        let mut text = Text::default();
        let (record, name) = (registration.record(), registration.name());
        let labels = [("name", name), ("address", record.address.clone()), ("engine", record.engine.clone())];
        text.family("whimbrel_worker_info", Kind::Gauge, "The worker: 1.");
        text.sample("whimbrel_worker_info", &labels, 1);
        let registered = u64::from(!registration.is_lost());
        text.gauge(
            "whimbrel_worker_registered",
            "Whether the cluster takes the worker for alive.",
            registered,
        );
        let threads = u64::from(record.threads);
        text.gauge("whimbrel_worker_threads", "Channels that run without one waiting for another.", threads);
        let running = self.running.load(Ordering::Relaxed);
        text.gauge("whimbrel_channels_running", "Channels that run.", running);
        text.family("whimbrel_channels_total", Kind::Counter, "Channels that have run, by how that ended.");
        for (outcome, name) in
            [(Outcome::Ended, "ended"), (Outcome::Failed, "failed"), (Outcome::Stopped, "stopped")]
        {
            let count = self.outcomes[outcome as usize].load(Ordering::Relaxed);
            text.sample("whimbrel_channels_total", &[("outcome", name.to_string())], count);
        }
        let counts = self.counts();
        let totals = [
            ("whimbrel_rows_total", "Rows that channels have taken.", counts.rows),
            ("whimbrel_late_rows_total", "Rows that came too late.", counts.late_rows),
            ("whimbrel_tasks_total", "Steps of channels that have handed out something.", counts.tasks),
            ("whimbrel_moved_bytes_total", "Bytes that came from other workers.", counts.moved_bytes),
            ("whimbrel_spilled_bytes_total", "Bytes of messages on the disk.", counts.spilled_bytes),
        ];
        totals.into_iter().for_each(|(name, help, value)| text.counter(name, help, value));
        let room = backup.room();
        let live_jobs = self.live_jobs.load(Ordering::Relaxed);
        let gauges = [
            ("whimbrel_backup_queues", "Queues whose messages are kept.", backup.queue_count()),
            ("whimbrel_live_jobs", "Live jobs that the worker hosts.", live_jobs),
        ];
        gauges.into_iter().for_each(|(name, help, value)| text.gauge(name, help, value as u64));
        text.budget("whimbrel_backup_memory", "Bytes of messages in memory", &room.memory);
        text.budget("whimbrel_backup_disk", "Bytes of messages on the disk", &room.disk);
        text.0
    }
}

/// What a family of samples is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It only grows.
    Counter,
    /// It grows and falls.
    Gauge,
}

/// Families of samples, written one after the other.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // A string takes all that is written into it.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, String)], value: u64) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, Kind::Counter, help);
        self.sample(name, &[], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, Kind::Gauge, help);
        self.sample(name, &[], value);
    }

    /// How much of a budget is used, and its limit, if there is one.
    fn budget(&mut self, name: &str, what: &str, budget: &Budget) {
        self.gauge(&format!("{name}_bytes"), &format!("{what}."), budget.used());
        if let Some(limit) = budget.limit() {
            self.gauge(&format!("{name}_limit_bytes"), &format!("{what} that there may be."), limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u64);

    impl Counted for Fixed {
        fn counts(&self) -> RunCounts {
            RunCounts { rows: self.0, ..RunCounts::default() }
        }
    }

    #[test]
    fn what_was_counted_stays_when_a_run_is_dropped() {
        let metrics = Metrics::default();
        let runs: [Arc<dyn Counted>; 2] = [Arc::new(Fixed(3)), Arc::new(Fixed(4))];
        runs.iter().for_each(|run| metrics.add(Arc::clone(run)));
        assert_eq!(metrics.counts().rows, 7);
        metrics.retire(&runs[0]);
        metrics.retire(&runs[0]);
        assert_eq!(metrics.counts().rows, 7);
    }

    #[test]
    fn runs_end_in_one_way() {
        let metrics = Arc::new(Metrics::default());
        let (ended, stopped) = (metrics.begin(), metrics.begin());
        assert_eq!(metrics.running.load(Ordering::Relaxed), 2);
        ended.end(Outcome::Ended);
        drop(stopped);
        let outcomes: Vec<u64> =
            metrics.outcomes.iter().map(|outcome| outcome.load(Ordering::Relaxed)).collect();
        assert_eq!((metrics.running.load(Ordering::Relaxed), outcomes), (0, vec![1, 0, 1]));
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.sample("a", &[("b", "c\"\\\n".to_string())], 1);
        assert_eq!(text.0, "a{b=\"c\\\"\\\\\\n\"} 1\n");
    }
}
