//! What a query is expected to take and to cost, before it runs: the model that the number of tasks is chosen
//! by (starling.txt §4.3), and that `explain` shows.
//!
//! A task begins, reads, computes and writes, one after the other. The tasks of a stage run in waves, as many
//! at a time as the pools take, the base pool first; a stage begins when those before it have ended, and
//! takes as long as the store needs for its requests at least. Functions are new when a query begins.
//! `benches/functions.py` measures how far the model is from what happens.
//!
//! Layers, lowest first: `rates`, `shape` (what is known of a query), the model; `goal` (which forecast is
//! chosen), `tasks` (how many tasks each stage gets), `plans` (which plan runs), `text` (for people).

mod goal;
mod plans;
mod rates;
mod shape;
mod tasks;
mod text;

pub use goal::{Expected, Goal};
pub use plans::choose_plan;
pub use rates::Rates;
pub use shape::{Edge, Shape, StageShape};
pub use text::forecast_text;

use crate::bill::PoolKind;
use crate::coordinator::JobSettings;
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
    /// How many bytes the operators of a task may hold.
    pub operator_memory: f64,
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
    /// The megabytes of memory of its functions, if there are several sizes.
    pub memory: Option<u32>,
    /// What it would take on each pool alone, if there are two: seconds, and dollars.
    pub alone: Vec<(PoolKind, f64, f64)>,
}

impl Forecast {
    /// What it is chosen by.
    pub fn expected(&self) -> Expected {
        (self.seconds, self.dollars, self.usage.gb_seconds)
    }
}

impl PoolModel {
    /// How long each of so many tasks takes that are alike.
    fn task_seconds(&self, count: f64, task: &Task) -> f64 {
        let Rates { invocation, latency, transfer, compute, rows, processors, .. } = self.rates;
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

/// The functions that a query has started so far. Those of a base pool are there anyway.
#[derive(Default)]
struct Started {
    elastic: f64,
}

impl Started {
    /// Tasks run on the functions that there are, and on new ones.
    fn start(&mut self, pool: &PoolModel, tasks: &mut TaskForecast) {
        let on_pool = tasks.usage[0].invocations - tasks.usage[1].invocations;
        let new = (on_pool as f64).min(pool.concurrency as f64) - self.elastic;
        if new > 0.0 {
            self.elastic += new;
            tasks.seconds += pool.rates.cold_start;
            tasks.usage[0].gb_seconds += pool.gb_seconds(new * pool.rates.cold_start);
        }
    }
}

impl Model {
    /// The model of queries that are run like this.
    pub fn of(
        settings: &JobSettings,
        elastic: PoolModel,
        base: Option<(PoolModel, Option<Duration>)>,
        operator_memory: u64,
    ) -> Model {
        Model {
            elastic,
            base,
            operator_memory: operator_memory as f64,
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
    pub fn forecast(&self, shape: &Shape, small: u64) -> Forecast {
        let mut forecast = self.forecast_of_pools(shape, small);
        if let Some((base, _)) = self.base.as_ref().filter(|_| !forecast.runs_here) {
            for (kind, pool) in [(PoolKind::Base, base), (PoolKind::Elastic, &self.elastic)] {
                let alone = self.alone(pool).forecast_of_pools(shape, small);
                forecast.alone.push((kind, alone.seconds, alone.dollars));
            }
        }
        forecast
    }

    fn forecast_of_pools(&self, shape: &Shape, small: u64) -> Forecast {
        let estimates = || shape.stages.iter().map(|stage| &stage.estimate);
        let source_bytes: f64 = estimates().map(|estimate| estimate.source_bytes).sum();
        if is_small(source_bytes, small) {
            let rows: f64 = estimates().map(|estimate| estimate.input_rows).sum();
            return Forecast {
                stages: vec![],
                runs_here: true,
                seconds: source_bytes / Rates::OWN_MACHINES.compute + rows / Rates::OWN_MACHINES.rows,
                dollars: 0.0,
                usage: Usage::default(),
                memory: None,
                alone: vec![],
            };
        }
        let is_inline: Vec<bool> =
            (0..shape.stages.len()).map(|stage| self.is_inline(shape, stage)).collect();
        let mut stages: Vec<StageForecast> = Vec::new();
        let mut functions = Started::default();
        for (number, stage) in shape.stages.iter().enumerate() {
            let before = stage.inputs.iter().map(|edge| stages[edge.from].span.1).fold(0.0, f64::max);
            stages.push(self.stage(shape, number, &is_inline, before, &mut functions));
        }
        let (mut usage, mut base) = (Usage::default(), Usage::default());
        for stage in &stages {
            usage += stage.usage;
            base += stage.base;
        }
        let seconds = stages.iter().map(|stage| stage.span.1).fold(0.0, f64::max);
        let dollars = self.prices().dollars(&usage, &base, Duration::ZERO);
        Forecast { stages, runs_here: false, seconds, dollars, usage, memory: None, alone: vec![] }
    }

    fn stage(
        &self,
        shape: &Shape,
        number: usize,
        inline: &[bool],
        begin: f64,
        functions: &mut Started,
    ) -> StageForecast {
        let StageShape { tasks, estimate, inputs } = &shape.stages[number];
        let (count, is_inline) = (*tasks as f64, inline[number]);
        let (combines, reads_of_combines) = shape.combiners(number);
        // What combining tasks make is large.
        let is_read = |edge: &&Edge| edge.groups.is_some() || !inline[edge.from];
        let sources: usize = inputs.iter().filter(is_read).map(Edge::sources).sum();
        let table_gets = self.table_gets(estimate, count);
        let gets = table_gets + count * sources as f64;
        let objects = if is_inline { 0.0 } else { count + combines as f64 };
        let computed = estimate.source_bytes + estimate.input_bytes;
        let transferred = estimate.source_bytes / COMPRESSION + estimate.input_bytes;
        let written = if is_inline { 0.0 } else { estimate.output_bytes };
        // What the operators of a task have no memory for is written to files, and read again.
        let spilled = (estimate.input_bytes / count - self.operator_memory).max(0.0);
        let mut of_tasks = self.forecast_tasks(
            count,
            &Task {
                waits: (gets / count / self.parallel_reads).ceil() + f64::from(u8::from(!is_inline)),
                transferred: (transferred + written) / count + 2.0 * spilled,
                computed: computed / count,
                rows: estimate.input_rows / count,
            },
        );
        functions.start(&self.elastic, &mut of_tasks);
        let puts = if is_inline { 0.0 } else { count };
        self.wait_for_store(count, [gets - table_gets, puts], &mut of_tasks);
        let combiners = combines as f64;
        let transferred_each = 2.0 * estimate.output_bytes / combiners.max(1.0);
        let combining = Task { waits: 2.0, transferred: transferred_each, computed: 0.0, rows: 0.0 };
        let mut of_combines = self.forecast_tasks(combiners, &combining);
        self.wait_for_store(combiners, [reads_of_combines as f64, combiners], &mut of_combines);
        let end = begin + of_tasks.seconds + of_combines.seconds;
        let [mut usage, mut base] = of_tasks.usage;
        usage += of_combines.usage[0];
        base += of_combines.usage[1];
        usage += Usage {
            gets: gets.round() as u64 + reads_of_combines as u64,
            table_gets: table_gets.round() as u64,
            puts: objects.round() as u64,
            read_bytes: transferred as u64,
            written_bytes: written as u64,
            ..Usage::default()
        };
        StageForecast {
            tasks: *tasks,
            combines,
            bytes: [estimate.source_bytes, estimate.input_bytes, estimate.output_bytes],
            objects,
            usage,
            base,
            task_seconds: of_tasks.task_seconds,
            span: (begin, end),
        }
    }

    /// Tasks take as long as the store needs for their requests that read and that write.
    fn wait_for_store(&self, tasks: f64, [reads, writes]: [f64; 2], forecast: &mut TaskForecast) {
        let Rates { reads: reads_each_second, writes: writes_each_second, .. } = self.elastic.rates;
        let needed = (reads / reads_each_second).max(writes / writes_each_second);
        let waits = (needed - forecast.seconds).max(0.0);
        let running = tasks.min(self.concurrency() as f64);
        forecast.seconds += waits;
        forecast.usage[0].gb_seconds += self.elastic.gb_seconds(running * waits);
    }

    /// How many functions run at the same time.
    pub fn concurrency(&self) -> usize {
        match &self.base {
            Some((base, None)) => base.concurrency,
            Some((base, Some(_))) => base.concurrency + self.elastic.concurrency,
            None => self.elastic.concurrency,
        }
    }

    /// How many requests read tables. Each task opens the objects that it reads, and may begin within one
    /// that the task before it reads, too.
    fn table_gets(&self, estimate: &StageEstimate, tasks: f64) -> f64 {
        let objects = estimate.source_objects as f64;
        let opened = if objects > 0.0 { objects + tasks - 1.0 } else { 0.0 };
        estimate.source_requests as f64 + OPEN_OBJECT * opened
    }

    /// Whether the output of a stage goes along with invocations.
    fn is_inline(&self, shape: &Shape, stage: usize) -> bool {
        let StageShape { tasks, estimate, .. } = &shape.stages[stage];
        let each = estimate.output_bytes / *tasks as f64;
        each <= (INLINE_TOTAL / shape.most_sources(stage) as f64).min(self.inline_bytes)
    }
}

/// Whether a query that reads so many bytes runs in the process that asks. Nothing is smaller than 0.
pub fn is_small(source_bytes: f64, small: u64) -> bool {
    small > 0 && source_bytes <= small as f64
}
