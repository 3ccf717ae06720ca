//! Bills: what a query has used, and what that costs.

use crate::prices::{PriceSheet, Prices};
use crate::usage::Usage;
use std::fmt;
use std::time::Duration;

/// What a query that has ended has used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finished {
    /// All of it.
    pub usage: Usage,
    /// What functions of the base pool used of that: invocations and memory.
    pub base: Usage,
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
    /// Where it ran.
    pub pool: PoolKind,
    /// When it began, from the start of the query.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
    /// How.
    pub outcome: AttemptOutcome,
}

/// One of two pools of functions. Where there is no base pool, all are elastic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// Machines that are there anyway, for the base load.
    Base,
    /// Functions that are there when they are invoked, for all else.
    Elastic,
}

impl PoolKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            PoolKind::Base => "base",
            PoolKind::Elastic => "elastic",
        }
    }
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
    pub prices: Prices,
}

/// What one pool has done for a query.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolBill {
    /// The pool.
    pub pool: PoolKind,
    /// The prices of its functions.
    pub prices: PriceSheet,
    /// What its functions used: invocations and memory.
    pub usage: Usage,
    /// What they cost, in dollars.
    pub dollars: f64,
    /// What the whole query would have cost if this pool had run all of it, for as many gigabyte-seconds.
    pub alone: f64,
}

impl Bill {
    /// The dollars by kind, as [`Prices::dollars_by_kind`] has them.
    pub fn dollars_by_kind(&self) -> [f64; 5] {
        self.prices.dollars_by_kind(&self.finished.usage, &self.finished.base, self.elapsed)
    }

    /// All of it, in dollars.
    pub fn dollars(&self) -> f64 {
        self.dollars_by_kind().iter().sum()
    }

    /// The part of each pool, the base pool first.
    pub fn pools(&self) -> Vec<PoolBill> {
        let Finished { usage, base, .. } = self.finished;
        let functions =
            Usage { invocations: usage.invocations, gb_seconds: usage.gb_seconds, ..Usage::default() };
        let elastic = (PoolKind::Elastic, &self.prices.sheet, functions.since(base));
        let base = self.prices.base.as_ref().map(|sheet| (PoolKind::Base, sheet, base));
        let bill = |(pool, sheet, own): (PoolKind, &PriceSheet, Usage)| {
            let alone = Prices::of(self.prices.sheet.with_functions_of(sheet));
            PoolBill {
                pool,
                prices: sheet.clone(),
                usage: own,
                dollars: Prices::of(sheet.clone()).dollars(&own, &Usage::default(), Duration::ZERO),
                alone: alone.dollars(&usage, &Usage::default(), self.elapsed),
            }
        };
        base.into_iter().chain([elastic]).map(bill).collect()
    }
}

impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [compute, invocation, get, put, storage] = self.dollars_by_kind();
        let Usage { gb_seconds, invocations, gets, puts, .. } = self.finished.usage;
        write!(
            f,
            "${:.6}: {gb_seconds:.2} GB-s ${compute:.6}, {invocations} invocations ${invocation:.6}, {gets} GETs \
             ${get:.6}, {puts} PUTs ${put:.6}, storage ${storage:.6}; {:.2} s",
            self.dollars(),
            self.elapsed.as_secs_f64()
        )
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
        let finished = Finished { usage, ..Finished::default() };
        let bill = Bill { finished, elapsed: Duration::ZERO, prices: Prices::of(prices) };
        assert_eq!((bill.dollars() * 1000.0).round(), 58.0);
    }

    #[test]
    fn each_pool_is_billed_at_its_prices() {
        let sheet = PriceSheet::named("aws-us-east-1-x86").unwrap();
        let base = PriceSheet { gb_second: sheet.gb_second / 10.0, invocation: 0.0, ..sheet.clone() };
        let usage = Usage { gets: 1000, invocations: 10, gb_seconds: 100.0, ..Usage::default() };
        let on_base = Usage { invocations: 8, gb_seconds: 80.0, ..Usage::default() };
        let finished = Finished { usage, base: on_base, ..Finished::default() };
        let prices = Prices { sheet: sheet.clone(), base: Some(base.clone()) };
        let bill = Bill { finished, elapsed: Duration::ZERO, prices };
        let expected =
            80.0 * base.gb_second + 20.0 * sheet.gb_second + 2.0 * sheet.invocation + 1000.0 * sheet.get;
        assert!((bill.dollars() - expected).abs() < 1e-12, "{bill:?}");
        let [own, elastic] = <[PoolBill; 2]>::try_from(bill.pools()).unwrap();
        assert_eq!((own.usage.invocations, elastic.usage.invocations), (8, 2));
        assert!((own.dollars + elastic.dollars + 1000.0 * sheet.get - expected).abs() < 1e-12);
        assert!(own.alone < bill.dollars() && bill.dollars() < elastic.alone);
    }
}
