//! What a query is expected to take and to cost, before it runs: the model that the number of tasks is chosen
//! by (starling.txt §4.3), and that `explain` shows.
//!
//! A task begins, reads, computes and writes, one after the other. The tasks of a stage run in waves, as many
//! at a time as the service takes; a stage begins when those before it have ended. Rates are those of one
//! function; `benches/functions.py` measures how far the model is from what happens.

use crate::bill::Usage;
use crate::coordinator::{JobSettings, Units};
use crate::prices::PriceSheet;
use std::time::Duration;
use whimbrel_sharded::program::StageEstimate;
use whimbrel_sharded::runtime::TransferCosts;

/// How many bytes of columns in memory a byte of a table has.
const COMPRESSION: f64 = 3.0;

/// How many requests open an object of a table: its size, and its footer.
const OPEN_OBJECT: f64 = 2.0;

/// The most that an invocation brings along (see the coordinator).
const INLINE_TOTAL: f64 = 3e6;

/// How fast functions are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// From the invocation to the first request, and from the last one to the answer, in seconds.
    pub invocation: f64,
    /// The latency of a request, in seconds.
    pub latency: f64,
    /// How many bytes a function reads or writes in a second.
    pub transfer: f64,
    /// How many bytes it computes with in a second, with a whole processor.
    pub compute: f64,
    /// How many rows it computes with in a second, with a whole processor.
    pub rows: f64,
}

impl Rates {
    /// Of AWS Lambda over Amazon S3: latency and throughput as in starling.txt §3.3 and §5.1. What this
    /// engine computes was measured (`benches/functions.py`).
    pub const LAMBDA: Rates =
        Rates { invocation: 0.03, latency: 0.015, transfer: 75e6, compute: 2.5e9, rows: 60e6 };

    /// Of processes of one machine over an object store that is near.
    pub const OWN_MACHINES: Rates =
        Rates { invocation: 0.005, latency: 0.002, transfer: 500e6, ..Rates::LAMBDA };
}

/// How fast functions are, and how their queries are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// How fast they are.
    pub rates: Rates,
    /// How many functions run at the same time.
    pub concurrency: f64,
    /// How many reads of a function run at the same time.
    pub parallel_reads: f64,
    /// The most bytes of an output that goes along with invocations.
    pub inline_bytes: f64,
    /// The gigabytes of memory of a function.
    pub memory: f64,
    /// What all of it costs.
    pub prices: PriceSheet,
}

/// What a stage is expected to take.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StageForecast {
    /// How many tasks it has.
    pub tasks: usize,
    /// How many tasks combine its output.
    pub combines: usize,
    /// The bytes that it reads from tables and from other stages, and that it writes.
    pub bytes: [f64; 3],
    /// How many objects it writes.
    pub objects: f64,
    /// Its requests and its memory.
    pub usage: Usage,
    /// The seconds of a task.
    pub task_seconds: f64,
    /// When it begins and ends, in seconds from the start of the query.
    pub span: (f64, f64),
}

/// What a query is expected to take and to cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Each stage.
    pub stages: Vec<StageForecast>,
    /// Whether it runs in the process that asks.
    pub runs_here: bool,
    /// How long it takes.
    pub seconds: f64,
    /// What it costs, in dollars.
    pub dollars: f64,
    /// What it uses.
    pub usage: Usage,
}

impl Model {
    /// The model of functions that are as fast and are used like this, at these prices.
    pub fn of(settings: &JobSettings, rates: Rates, prices: PriceSheet) -> Model {
        // A function has one processor for each 1769 megabytes; a task is one thread.
        let processor = (f64::from(settings.memory) / 1769.0).min(1.0);
        Model {
            rates: Rates { compute: rates.compute * processor, rows: rates.rows * processor, ..rates },
            concurrency: settings.schedule.concurrency as f64,
            parallel_reads: f64::from(settings.parallel_reads),
            inline_bytes: settings.inline_bytes as f64,
            memory: f64::from(settings.memory) / 1024.0,
            prices,
        }
    }

    /// What it costs to bring rows from one task to another: they are written and read.
    pub fn transfer_costs(&self) -> TransferCosts {
        let Rates { invocation, latency, transfer, .. } = self.rates;
        TransferCosts { movement: (invocation + 2.0 * latency) * 1e9, byte: 2.0 / transfer * 1e9 }
    }

    /// What a query is expected to take. Small ones run in the process that asks.
    /// All bytes and rows are multiplied by `scale`, for tables that are larger than those that are there.
    pub fn forecast(&self, units: &Units, small: u64, scale: f64) -> Forecast {
        let estimates: Vec<StageEstimate> =
            units.plan.programs.estimates().iter().map(|estimate| scaled(estimate, scale)).collect();
        let source_bytes: f64 = estimates.iter().map(|estimate| estimate.source_bytes).sum();
        if is_small(source_bytes, small) {
            let rows: f64 = estimates.iter().map(|estimate| estimate.input_rows).sum();
            return Forecast {
                stages: vec![],
                runs_here: true,
                seconds: source_bytes / self.rates.compute + rows / self.rates.rows,
                dollars: 0.0,
                usage: Usage::default(),
            };
        }
        let is_inline = estimates.iter().enumerate().map(|(stage, own)| self.is_inline(units, stage, own));
        let is_inline: Vec<bool> = is_inline.collect();
        let mut stages: Vec<StageForecast> = Vec::new();
        for (number, estimate) in estimates.iter().enumerate() {
            let before = producers(units, number).map(|stage| stages[stage].span.1).fold(0.0, f64::max);
            stages.push(self.stage(units, number, estimate, &is_inline, before));
        }
        let mut usage = Usage::default();
        stages.iter().for_each(|stage| usage += stage.usage);
        let seconds = stages.iter().map(|stage| stage.span.1).fold(0.0, f64::max);
        let dollars = usage.dollars(&self.prices, Duration::ZERO);
        Forecast { stages, runs_here: false, seconds, dollars, usage }
    }

    fn stage(
        &self,
        units: &Units,
        number: usize,
        estimate: &StageEstimate,
        inline: &[bool],
        begin: f64,
    ) -> StageForecast {
        let tasks = units.plan.topology.channels_of(number);
        let count = tasks.len() as f64;
        let (is_inline, combines) = (inline[number], combines(units, number));
        // What combining tasks make is large.
        let comes_inline = |unit: usize| units.combine(unit).is_none() && inline[units.stage(unit)];
        let table_gets = self.table_gets(estimate, count);
        let mut gets = table_gets;
        for task in tasks.clone() {
            let readings = units.readings(task).iter();
            gets += readings.filter(|reading| !comes_inline(reading.from)).count() as f64;
        }
        let combined: f64 = combines.iter().map(|unit| units.readings(*unit).len() as f64).sum();
        let objects = if is_inline { 0.0 } else { count + combines.len() as f64 };
        let computed = estimate.source_bytes + estimate.input_bytes;
        let transferred = estimate.source_bytes / COMPRESSION + estimate.input_bytes;
        let waits = (gets / count / self.parallel_reads).ceil();
        let task_seconds = self.rates.invocation
            + waits * self.rates.latency
            + transferred / count / self.rates.transfer
            + computed / count / self.rates.compute
            + estimate.input_rows / count / self.rates.rows
            + if is_inline {
                0.0
            } else {
                self.rates.latency + estimate.output_bytes / count / self.rates.transfer
            };
        let combine_seconds = match combines.len() as f64 {
            0.0 => 0.0,
            tasks => {
                self.rates.invocation
                    + self.rates.latency * 2.0
                    + 2.0 * estimate.output_bytes / tasks / self.rates.transfer
            }
        };
        let waves = |tasks: f64| (tasks / self.concurrency).ceil();
        let end = begin + waves(count) * task_seconds + waves(combines.len() as f64) * combine_seconds;
        let usage = Usage {
            gets: (gets + combined).round() as u64,
            table_gets: table_gets.round() as u64,
            puts: objects.round() as u64,
            read_bytes: transferred as u64,
            written_bytes: if is_inline { 0 } else { estimate.output_bytes as u64 },
            invocations: (count as u64) + combines.len() as u64,
            gb_seconds: (count * task_seconds + combines.len() as f64 * combine_seconds) * self.memory,
            hedged: 0,
        };
        StageForecast {
            tasks: tasks.len(),
            combines: combines.len(),
            bytes: [estimate.source_bytes, estimate.input_bytes, estimate.output_bytes],
            objects,
            usage,
            task_seconds,
            span: (begin, end),
        }
    }

    fn table_gets(&self, estimate: &StageEstimate, tasks: f64) -> f64 {
        let opened = estimate.source_objects as f64 * tasks.min(self.concurrency);
        estimate.source_requests as f64 + OPEN_OBJECT * opened
    }

    /// Whether the output of a stage goes along with invocations.
    fn is_inline(&self, units: &Units, stage: usize, estimate: &StageEstimate) -> bool {
        let tasks = units.plan.topology.channels_of(stage);
        let each = estimate.output_bytes / tasks.len() as f64;
        let readers = units.readers(tasks.start);
        let sources = readers.map(|reader| units.sources(reader).len()).max().unwrap_or(1);
        each <= (INLINE_TOTAL / sources as f64).min(self.inline_bytes)
    }
}

/// Whether a query that reads so many bytes runs in the process that asks. Nothing is smaller than 0.
pub fn is_small(source_bytes: f64, small: u64) -> bool {
    small > 0 && source_bytes <= small as f64
}

/// The tasks that combine the output of a stage.
fn combines(units: &Units, stage: usize) -> Vec<usize> {
    (units.plan.tasks()..units.count()).filter(|unit| units.stage(*unit) == stage).collect()
}

/// The stages that a stage reads from.
fn producers(units: &Units, stage: usize) -> impl Iterator<Item = usize> + '_ {
    let tasks = units.plan.topology.channels_of(stage);
    tasks.flat_map(|task| units.sources(task)).map(|source| units.stage(*source))
}

fn scaled(estimate: &StageEstimate, scale: f64) -> StageEstimate {
    StageEstimate {
        source_bytes: estimate.source_bytes * scale,
        source_requests: (estimate.source_requests as f64 * scale) as usize,
        input_bytes: estimate.input_bytes * scale,
        input_rows: estimate.input_rows * scale,
        output_bytes: estimate.output_bytes * scale,
        ..*estimate
    }
}

/// What a user wants of the number of tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The number beyond which more dollars buy little time: the least product of both.
    Knee,
    /// The fastest that costs at most so many dollars.
    MaxCost(f64),
    /// The cheapest that takes at most so long.
    MaxLatency(Duration),
}

/// What a choice is made by: seconds, dollars, and gigabyte-seconds.
type Expected = (f64, f64, f64);

impl Goal {
    /// The place of the choice among what is expected, as seconds, dollars and gigabyte-seconds; the nearest
    /// one if none is good enough.
    pub fn choose(self, expected: &[Expected]) -> usize {
        // Machines that are there anyway cost nothing, and their memory is scarce all the same.
        let is_free = expected.iter().all(|(_, dollars, _)| *dollars == 0.0);
        // The least of these numbers, one after the other, is the best.
        let rank = |(seconds, dollars, memory): &Expected| {
            let cost = if is_free { *memory } else { *dollars };
            match self {
                Goal::Knee => [0.0, seconds * cost, *seconds],
                Goal::MaxCost(most) if *dollars <= most => [0.0, *seconds, cost],
                Goal::MaxLatency(most) if *seconds <= most.as_secs_f64() => [0.0, cost, *seconds],
                Goal::MaxCost(_) => [1.0, cost, *seconds],
                Goal::MaxLatency(_) => [1.0, *seconds, cost],
            }
        };
        let ranks = expected.iter().map(rank).enumerate();
        let best = ranks.min_by(|(_, a), (_, b)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        best.map_or(0, |(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds and dollars of Q12 with 16 to 256 tasks (starling.txt, Fig. 14, read off): the knee is at
    /// 64 to 128.
    const FIGURE_14: [Expected; 5] =
        [(28.0, 0.157, 0.0), (17.0, 0.166, 0.0), (13.0, 0.197, 0.0), (11.0, 0.248, 0.0), (10.8, 0.36, 0.0)];

    #[test]
    fn goals_choose_as_the_paper_does() {
        assert_eq!(Goal::Knee.choose(&FIGURE_14), 2);
        assert_eq!(Goal::MaxCost(0.25).choose(&FIGURE_14), 3);
        assert_eq!(Goal::MaxLatency(Duration::from_secs(20)).choose(&FIGURE_14), 1);
    }

    #[test]
    fn the_nearest_is_chosen_if_none_is_good_enough() {
        assert_eq!(Goal::MaxCost(0.01).choose(&FIGURE_14), 0);
        assert_eq!(Goal::MaxLatency(Duration::from_secs(1)).choose(&FIGURE_14), 4);
    }

    #[test]
    fn machines_of_ones_own_are_chosen_by_their_time() {
        let free = [(4.0, 0.0, 8.0), (2.5, 0.0, 9.0), (2.4, 0.0, 20.0)];
        assert_eq!(Goal::Knee.choose(&free), 1);
    }
}
