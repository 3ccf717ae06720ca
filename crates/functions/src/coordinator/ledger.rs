//! What a query uses while it runs: invocations that were answered, that were lost, and that still run.

use super::units::Units;
use crate::bill::{Attempt, AttemptKind, AttemptOutcome, Finished, PoolKind};
use crate::protocol::Answer;
use crate::usage::Usage;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The ledger of a query.
pub struct Ledger {
    units: Arc<Units>,
    began: Instant,
    finished: Finished,
    open: Vec<Launch>,
}

/// An invocation of units that was begun. No two of a unit began at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The units.
    pub units: Vec<usize>,
    /// When it began.
    pub began: Instant,
    /// Where it runs.
    pub pool: PoolKind,
    /// The megabytes of memory of its function.
    pub memory: u32,
}

/// What a function uses that has run for so long, with so many megabytes of memory.
fn function_usage(time: Duration, memory: u32) -> Usage {
    let gb_seconds = time.as_secs_f64() * f64::from(memory) / 1024.0;
    Usage { invocations: 1, gb_seconds, ..Usage::default() }
}

impl Ledger {
    /// The ledger of a query that begins.
    pub fn new(units: Arc<Units>) -> Ledger {
        let finished = Finished { tasks: units.plan.tasks() as u64, ..Finished::default() };
        Ledger { units, began: Instant::now(), finished, open: vec![] }
    }

    /// An invocation has begun.
    pub fn begin(&mut self, launch: Launch) {
        self.open.push(launch);
    }

    /// An invocation has ended, and is not billed yet.
    pub fn end(&mut self, launch: &Launch) {
        self.open.retain(|other| other != launch);
    }

    /// An invocation was answered. `billed` is what its service says: milliseconds, and megabytes.
    pub fn add_answer(&mut self, launch: &Launch, answer: &Answer, billed: Option<(u64, u64)>) {
        self.finished.usage += answer.usage;
        self.finished.formula.gets += answer.spec_gets;
        let (milliseconds, memory) = billed.unwrap_or((answer.milliseconds, u64::from(launch.memory)));
        let memory = u32::try_from(memory).unwrap_or(u32::MAX);
        self.add_functions(launch.pool, function_usage(Duration::from_millis(milliseconds), memory));
    }

    /// An invocation has no answer, and ran until now.
    pub fn add_lost(&mut self, launch: &Launch) {
        self.add_functions(launch.pool, function_usage(launch.began.elapsed(), launch.memory));
    }

    fn add_functions(&mut self, pool: PoolKind, usage: Usage) {
        self.finished.usage += usage;
        if pool == PoolKind::Base {
            self.finished.base += usage;
        }
    }

    /// An attempt at a unit was lost.
    pub fn add_failure(&mut self) {
        self.finished.failures += 1;
    }

    /// The output of a unit was there, from an earlier query.
    pub fn add_kept(&mut self, unit: usize) {
        self.finished.kept += 1;
        let kept = Launch { units: vec![unit], began: self.began, pool: PoolKind::Elastic, memory: 0 };
        self.add_attempt(unit, &kept, AttemptKind::Kept, AttemptOutcome::Ended);
    }

    /// An attempt at a unit has ended.
    pub fn add_outcome(&mut self, unit: usize, launch: &Launch, outcome: AttemptOutcome) {
        let is_combine = self.units.combine(unit).is_some();
        let kind = if is_combine { AttemptKind::Combine } else { AttemptKind::Task };
        self.add_attempt(unit, launch, kind, outcome);
    }

    fn add_attempt(&mut self, unit: usize, launch: &Launch, kind: AttemptKind, outcome: AttemptOutcome) {
        self.finished.attempts.push(Attempt {
            stage: self.units.stage(unit),
            task: unit - self.first_of_kind(unit),
            kind,
            pool: launch.pool,
            start: launch.began.saturating_duration_since(self.began),
            end: self.began.elapsed(),
            outcome,
        });
    }

    /// The unit that has number 0 among those that are told apart from it by numbers.
    fn first_of_kind(&self, unit: usize) -> usize {
        match self.units.combine(unit) {
            Some(_) => self.units.plan.tasks(),
            None => self.units.plan.topology.channels_of(self.units.stage(unit)).start,
        }
    }

    /// Ends the ledger. What still runs is billed for as long as it has run at least.
    pub fn finish(&mut self, coordinator: Usage, formula: Usage, duplicates: u64) -> Finished {
        for launch in std::mem::take(&mut self.open) {
            self.add_lost(&launch);
            for unit in &launch.units {
                self.add_outcome(*unit, &launch, AttemptOutcome::Late);
            }
        }
        self.finished.usage += coordinator;
        self.finished.formula += formula;
        self.finished.duplicates = duplicates;
        std::mem::take(&mut self.finished)
    }
}
