//! What a query is expected to take and to cost, before it runs: the model that the number of tasks is chosen
//! by (starling.txt §4.3), and that `explain` shows.
//!
//! A task begins, reads, computes and writes, one after the other. The tasks of a stage run in waves, as many
//! at a time as the pools take, the base pool first; a stage begins when those before it have ended. Rates
//! are those of one function; `benches/functions.py` measures how far the model is from what happens.

use crate::bill::PoolKind;
use crate::coordinator::{JobSettings, Units};
use crate::prices::{PriceSheet, Prices};
use crate::usage::Usage;
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
    /// How many functions compute at this rate at the same time; those that are more share the processors.
    pub processors: f64,
}

impl Rates {
    /// Of AWS Lambda over Amazon S3: latency and throughput as in starling.txt §3.3 and §5.1. What this
    /// engine computes was measured (`benches/functions.py`).
    pub const LAMBDA: Rates = Rates {
        invocation: 0.03,
        latency: 0.015,
        transfer: 75e6,
        compute: 2.5e9,
        rows: 60e6,
        processors: f64::INFINITY,
    };

    /// Of processes of one machine over an object store that is near. How many processors it has is not known
    /// here: two that are threads of one core are not much more than one.
    pub const OWN_MACHINES: Rates =
        Rates { invocation: 0.005, latency: 0.002, transfer: 500e6, ..Rates::LAMBDA };

    /// Whether functions can be so fast.
    pub fn are_possible(&self) -> bool {
        let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        is_time(self.invocation)
            && is_time(self.latency)
            && [self.transfer, self.compute, self.rows, self.processors].iter().all(|rate| *rate > 0.0)
    }
}

/// What is expected of the functions of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolModel {
    /// How fast they are.
    pub rates: Rates,
    /// How many run at the same time.
    pub concurrency: usize,
    /// The megabytes of memory of each.
    pub memory: u32,
    /// What they cost, and requests.
    pub prices: PriceSheet,
}

/// What is expected of queries that run on one pool, or on two.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Functions that are there when they are invoked.
    pub elastic: PoolModel,
    /// Those that are used before, and for how long work waits for them; none: until they are free.
    pub base: Option<(PoolModel, Option<Duration>)>,
    /// How many reads of a function run at the same time.
    pub parallel_reads: f64,
    /// The most bytes of an output that goes along with invocations.
    pub inline_bytes: f64,
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
    /// What functions of the base pool use of that: invocations and memory.
    pub base: Usage,
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
    /// What it would take on each pool alone, if there are two: seconds, and dollars.
    pub alone: Vec<(PoolKind, f64, f64)>,
}

impl PoolModel {
    /// How long each of so many tasks takes that are alike.
    fn task_seconds(&self, count: f64, task: &Task) -> f64 {
        let Rates { invocation, latency, transfer, compute, rows, processors } = self.rates;
        let running = count.min(self.concurrency as f64);
        // A function has one processor for each 1769 megabytes; a task is one thread.
        let processor = (f64::from(self.memory) / 1769.0).min(1.0).min(processors / running.max(1.0));
        invocation
            + task.waits * latency
            + task.transferred / transfer
            + task.computed / (compute * processor)
            + task.rows / (rows * processor)
    }

    fn gb_seconds(&self, seconds: f64) -> f64 {
        seconds * f64::from(self.memory) / 1024.0
    }

    fn waves(&self, tasks: f64) -> f64 {
        (tasks / self.concurrency as f64).ceil()
    }
}

/// What a task does.
struct Task {
    /// How many requests are waited for one after the other.
    waits: f64,
    /// Bytes that are read and written.
    transferred: f64,
    /// Bytes that are computed with.
    computed: f64,
    /// Rows that are computed with.
    rows: f64,
}

/// What tasks that are alike take on the pools.
struct TaskForecast {
    /// How long the longest of them takes.
    task_seconds: f64,
    /// How long all of them take.
    seconds: f64,
    /// What functions use, and those of the base pool of that: invocations, and memory.
    usage: [Usage; 2],
}

impl Model {
    /// The model of queries that are run like this.
    pub fn of(
        settings: &JobSettings,
        elastic: PoolModel,
        base: Option<(PoolModel, Option<Duration>)>,
    ) -> Model {
        Model {
            elastic,
            base,
            parallel_reads: f64::from(settings.parallel_reads),
            inline_bytes: settings.inline_bytes as f64,
        }
    }

    /// What it costs to bring rows from one task to another: they are written and read.
    pub fn transfer_costs(&self) -> TransferCosts {
        let Rates { invocation, latency, transfer, .. } = self.elastic.rates;
        TransferCosts { movement: (invocation + 2.0 * latency) * 1e9, byte: 2.0 / transfer * 1e9 }
    }

    /// The same queries, with all work on one pool.
    fn alone(&self, pool: &PoolModel) -> Model {
        let prices = self.elastic.prices.with_functions_of(&pool.prices);
        Model { elastic: PoolModel { prices, ..pool.clone() }, base: None, ..self.clone() }
    }

    /// The prices of its queries.
    fn prices(&self) -> Prices {
        let base = self.base.as_ref().map(|(base, _)| base.prices.clone());
        Prices { sheet: self.elastic.prices.clone(), base }
    }

    /// What so many tasks take on the pools.
    fn forecast_tasks(&self, count: f64, task: &Task) -> TaskForecast {
        let elastic_seconds = self.elastic.task_seconds(count, task);
        let Some((base, wait)) = &self.base else {
            let seconds = self.elastic.waves(count) * elastic_seconds;
            return self.task_forecast(seconds, [count, 0.0], [elastic_seconds, 0.0]);
        };
        let base_seconds = base.task_seconds(count, task);
        let seconds = base.waves(count) * base_seconds;
        // The last tasks begin when all before them have ended.
        let waits = seconds - base_seconds;
        if wait.is_none_or(|wait| waits <= wait.as_secs_f64()) {
            return self.task_forecast(seconds, [0.0, count], [0.0, base_seconds]);
        }
        let both = (self.elastic.concurrency + base.concurrency) as f64;
        let waves = (count / both).ceil();
        let on_base = count.min(base.concurrency as f64 * waves);
        let seconds = wait.unwrap_or_default().as_secs_f64() + waves * base_seconds.max(elastic_seconds);
        self.task_forecast(seconds, [count - on_base, on_base], [elastic_seconds, base_seconds])
    }

    /// The usage of tasks on the elastic and on the base pool, which take so many seconds each.
    fn task_forecast(&self, seconds: f64, counts: [f64; 2], task_seconds: [f64; 2]) -> TaskForecast {
        let pools = [Some(&self.elastic), self.base.as_ref().map(|(base, _)| base)];
        let usage = |pool: usize| Usage {
            invocations: counts[pool] as u64,
            gb_seconds: pools[pool].map_or(0.0, |own| own.gb_seconds(counts[pool] * task_seconds[pool])),
            ..Usage::default()
        };
        let (mut all, base) = (usage(0), usage(1));
        all += base;
        TaskForecast { task_seconds: task_seconds[0].max(task_seconds[1]), seconds, usage: [all, base] }
    }

    /// What a query is expected to take. Small ones run in the process that asks.
    /// All bytes and rows are multiplied by `scale`, for tables that are larger than those that are there.
    pub fn forecast(&self, units: &Units, small: u64, scale: f64) -> Forecast {
        let mut forecast = self.forecast_of_pools(units, small, scale);
        if let Some((base, _)) = self.base.as_ref().filter(|_| !forecast.runs_here) {
            for (kind, pool) in [(PoolKind::Base, base), (PoolKind::Elastic, &self.elastic)] {
                let alone = self.alone(pool).forecast_of_pools(units, small, scale);
                forecast.alone.push((kind, alone.seconds, alone.dollars));
            }
        }
        forecast
    }

    fn forecast_of_pools(&self, units: &Units, small: u64, scale: f64) -> Forecast {
        let estimates: Vec<StageEstimate> =
            units.plan.programs.estimates().iter().map(|estimate| scaled(estimate, scale)).collect();
        let source_bytes: f64 = estimates.iter().map(|estimate| estimate.source_bytes).sum();
        if is_small(source_bytes, small) {
            let rows: f64 = estimates.iter().map(|estimate| estimate.input_rows).sum();
            return Forecast {
                stages: vec![],
                runs_here: true,
                seconds: source_bytes / Rates::OWN_MACHINES.compute + rows / Rates::OWN_MACHINES.rows,
                dollars: 0.0,
                usage: Usage::default(),
                alone: vec![],
            };
        }
        let is_inline = estimates.iter().enumerate().map(|(stage, own)| self.is_inline(units, stage, own));
        let is_inline: Vec<bool> = is_inline.collect();
        let mut stages: Vec<StageForecast> = Vec::new();
        for (number, estimate) in estimates.iter().enumerate() {
            let before = producers(units, number).map(|stage| stages[stage].span.1).fold(0.0, f64::max);
            stages.push(self.stage(units, number, estimate, &is_inline, before));
        }
        let (mut usage, mut base) = (Usage::default(), Usage::default());
        for stage in &stages {
            usage += stage.usage;
            base += stage.base;
        }
        let seconds = stages.iter().map(|stage| stage.span.1).fold(0.0, f64::max);
        let dollars = self.prices().dollars(&usage, &base, Duration::ZERO);
        Forecast { stages, runs_here: false, seconds, dollars, usage, alone: vec![] }
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
        let written = if is_inline { 0.0 } else { estimate.output_bytes };
        let of_tasks = self.forecast_tasks(
            count,
            &Task {
                waits: (gets / count / self.parallel_reads).ceil() + f64::from(u8::from(!is_inline)),
                transferred: (transferred + written) / count,
                computed: computed / count,
                rows: estimate.input_rows / count,
            },
        );
        let combiners = combines.len() as f64;
        let transferred_each = 2.0 * estimate.output_bytes / combiners.max(1.0);
        let combining = Task { waits: 2.0, transferred: transferred_each, computed: 0.0, rows: 0.0 };
        let of_combines = self.forecast_tasks(combiners, &combining);
        let end = begin + of_tasks.seconds + of_combines.seconds;
        let [mut usage, mut base] = of_tasks.usage;
        usage += of_combines.usage[0];
        base += of_combines.usage[1];
        usage += Usage {
            gets: (gets + combined).round() as u64,
            table_gets: table_gets.round() as u64,
            puts: objects.round() as u64,
            read_bytes: transferred as u64,
            written_bytes: written as u64,
            ..Usage::default()
        };
        StageForecast {
            tasks: tasks.len(),
            combines: combines.len(),
            bytes: [estimate.source_bytes, estimate.input_bytes, estimate.output_bytes],
            objects,
            usage,
            base,
            task_seconds: of_tasks.task_seconds,
            span: (begin, end),
        }
    }

    /// How many functions run at the same time.
    pub fn concurrency(&self) -> usize {
        match &self.base {
            Some((base, None)) => base.concurrency,
            Some((base, Some(_))) => base.concurrency + self.elastic.concurrency,
            None => self.elastic.concurrency,
        }
    }

    fn table_gets(&self, estimate: &StageEstimate, tasks: f64) -> f64 {
        let opened = estimate.source_objects as f64 * tasks.min(self.concurrency() as f64);
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
