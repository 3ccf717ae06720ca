//! Bills: what a query has used, and what that costs.

use crate::prices::PriceSheet;
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;
use std::time::Duration;

/// What functions and their exchange have used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Requests that read objects.
    pub gets: u64,
    /// Those of them that read tables.
    pub table_gets: u64,
    /// Requests that wrote objects.
    pub puts: u64,
    /// Bytes that were read from objects.
    pub read_bytes: u64,
    /// Bytes of objects that were written.
    pub written_bytes: u64,
    /// Invocations of functions.
    pub invocations: u64,
    /// Memory of functions by the time for which it is billed, in gigabytes and seconds.
    pub gb_seconds: f64,
    /// Requests that were sent a second time, since the first took too long. They are among the others.
    pub hedged: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.gets += other.gets;
        self.table_gets += other.table_gets;
        self.puts += other.puts;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.invocations += other.invocations;
        self.gb_seconds += other.gb_seconds;
        self.hedged += other.hedged;
    }
}

impl Usage {
    /// What was used since an earlier look at the same meter.
    #[must_use]
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            gets: self.gets - earlier.gets,
            table_gets: self.table_gets - earlier.table_gets,
            puts: self.puts - earlier.puts,
            read_bytes: self.read_bytes - earlier.read_bytes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            invocations: self.invocations - earlier.invocations,
            gb_seconds: self.gb_seconds - earlier.gb_seconds,
            hedged: self.hedged - earlier.hedged,
        }
    }
}

/// What a query that has ended has used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finished {
    /// All of it.
    pub usage: Usage,
    /// The requests that its exchanges need if each is sent once (starling.txt §4.2).
    pub formula: Usage,
    /// How many attempts were lost.
    pub failures: u64,
    /// How many units of work were invoked a second time, as they took too long.
    pub duplicates: u64,
    /// How many tasks the query had.
    pub tasks: u64,
    /// How many of their outputs were there.
    pub kept: u64,
    /// Whether it ran in the process that asked.
    pub ran_here: bool,
    /// All attempts, in the order in which they ended.
    pub attempts: Vec<Attempt>,
}

/// An attempt at a unit of work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attempt {
    /// The stage.
    pub stage: usize,
    /// The number of the task in its stage; of a task that combines, among all that do.
    pub task: usize,
    /// What it was.
    pub kind: AttemptKind,
    /// When it began, from the start of the query.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
    /// How.
    pub outcome: AttemptOutcome,
}

/// What an attempt is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptKind {
    /// A task of the plan.
    Task,
    /// A task that combines partitions.
    Combine,
    /// Nothing: the output was there.
    Kept,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// With the output that counts.
    Ended,
    /// It was lost.
    Lost,
    /// Another one was faster.
    Late,
    /// It waited for an object that did not come.
    Early,
    /// The service did not take it.
    Throttled,
}

impl AttemptKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            AttemptKind::Task => "task",
            AttemptKind::Combine => "combine",
            AttemptKind::Kept => "kept",
        }
    }
}

impl AttemptOutcome {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            AttemptOutcome::Ended => "ended",
            AttemptOutcome::Lost => "lost",
            AttemptOutcome::Late => "late",
            AttemptOutcome::Early => "early",
            AttemptOutcome::Throttled => "throttled",
        }
    }
}

/// The bill of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Bill {
    /// What was used.
    pub finished: Finished,
    /// From the start of the query to its last row.
    pub elapsed: Duration,
    /// The prices.
    pub prices: PriceSheet,
}

impl Usage {
    /// The dollars by kind: of the time and memory of functions, of invocations, of requests that read, of
    /// requests that write, and of what was stored for this time.
    pub fn dollars_by_kind(&self, prices: &PriceSheet, stored: Duration) -> [f64; 5] {
        let months = stored.as_secs_f64() / Duration::from_hours(30 * 24).as_secs_f64();
        [
            self.gb_seconds * prices.gb_second,
            self.invocations as f64 * prices.invocation,
            self.gets as f64 * prices.get,
            self.puts as f64 * prices.put,
            self.written_bytes as f64 / 1e9 * months * prices.gb_month,
        ]
    }

    /// All of it, in dollars.
    pub fn dollars(&self, prices: &PriceSheet, stored: Duration) -> f64 {
        self.dollars_by_kind(prices, stored).iter().sum()
    }
}

impl Bill {
    /// The dollars by kind, as [`Usage::dollars_by_kind`] has them.
    pub fn dollars_by_kind(&self) -> [f64; 5] {
        self.finished.usage.dollars_by_kind(&self.prices, self.elapsed)
    }

    /// All of it, in dollars.
    pub fn dollars(&self) -> f64 {
        self.dollars_by_kind().iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shuffle of starling.txt §4.2 with 512 producers and 128 consumers; 5.7 cents are with the second
    /// write of every object.
    #[test]
    fn a_shuffle_costs_what_the_paper_says() {
        let usage = Usage { gets: 2 * 512 * 128, puts: 2 * 512, ..Usage::default() };
        let prices = PriceSheet::named("aws-us-east-1-x86").unwrap();
        let bill =
            Bill { finished: Finished { usage, ..Finished::default() }, elapsed: Duration::ZERO, prices };
        assert_eq!((bill.dollars() * 1000.0).round(), 58.0);
    }
}
