//! Predicted latencies against measured ones, for every query of SCADr and TPC-W (piql.txt §8.6).
//!
//! ```text
//! cargo run --release -p whimbrel-bounded --example bounded -- \
//!     prediction [--short] [--stores simulated,embedded,distant] [--workloads SCADr,TPC-W] \
//!     [--intervals n] [--samples n] [--calls n] [--out results.json]
//! ```
//!
//! Intervals in which the store is measured and intervals in which queries are run take turns, so the two
//! never share one. One model answers for both workloads. Fan-outs of 50, which many of the queries have, are
//! not on the grid. One interval in twelve is twice as slow, in both series by chances of their own. In the
//! end the store is measured again, as it was and 1.4 times slower: the second has to be flagged, the first
//! not.
//!
//! Beside each error stands how far the measured percentile itself may be off, as one standard error over its
//! intervals, and the error of the median, which shows what is wrong with the model apart from its tail. A
//! control in each interval, without any waiting of the store's, says how much of the measured times is the
//! machine's.
//!
//! - `simulated`: log-normal times around 20 ms with a heavy tail for each request, on a clock that is a
//!   number: the arithmetic without the machine. Our own part costs nothing there.
//! - `distant`: the same times, waited for. Calls arrive at times that were drawn before, whether or not
//!   others are ready, and count from then on. If the control is not well below the 20 ms, the machine is too
//!   busy for it.
//! - `embedded`: a file of redb, one client, one call after the other; no drift is injected.

use crate::results::{Arguments, ms};
use crate::workloads::{Query, Workload, scadr, script, tpcw};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use whimbrel_bounded::predict::{Drift, Grid, Histogram, Model, Options, Prediction, Slo};
use whimbrel_bounded::store::{Distant, Latency};
use whimbrel_bounded::{Clock, Database, EmbeddedStore, MemoryStore, Prepared, Store};

const QUANTILE: f64 = 0.99;
/// How much too high and too low a prediction may be.
const ERROR: std::ops::RangeInclusive<f64> = -0.05..=0.15;

/// How much is measured.
struct Effort {
    intervals: usize,
    samples: usize,
    calls: usize,
    grid: Grid,
}

/// A store, and what can be done to it.
struct Bench {
    store: Arc<dyn Store>,
    /// Makes it slower.
    slow: Box<dyn Fn(f64) + Sync>,
    can_drift: bool,
    clock: Clock,
    /// Calls under way at the same time; with more than one, they arrive on their own.
    clients: usize,
    /// The same while the store is measured. Those clients never rest, so there are fewer.
    measuring: usize,
    /// What is to be removed in the end.
    file: Option<std::path::PathBuf>,
}

fn far(clock: Clock, clients: usize) -> Bench {
    let latency =
        Latency { tuple: Duration::from_micros(20), ..Latency::shared_network(Duration::from_millis(20)) };
    let store =
        Arc::new(Distant::new(MemoryStore::default(), Latency::constant(Duration::ZERO), clock.clone(), 5));
    let slowed = store.clone();
    let slow = Box::new(move |times: f64| slowed.set(latency.slower(times)));
    Bench { store, slow, can_drift: true, clock, clients, measuring: clients.div_ceil(3), file: None }
}

fn bench(store: &str) -> Bench {
    match store {
        "simulated" => far(Clock::simulated(), 1),
        "distant" => far(Clock::default(), 128),
        "embedded" => {
            let file = std::env::temp_dir().join(format!("whimbrel-prediction-{}.redb", std::process::id()));
            let store = EmbeddedStore::open(&file).expect("a file").without_waiting();
            Bench {
                store: Arc::new(store),
                slow: Box::new(|_| {}),
                can_drift: false,
                clock: Clock::default(),
                clients: 1,
                measuring: 1,
                file: Some(file),
            }
        }
        other => panic!("--stores are simulated, distant and embedded, not {other}"),
    }
}

/// Numbers that look random, apart from those of the library.
fn chance(seed: usize) -> f64 {
    let hash = (seed as u64 + 1)
        .wrapping_mul(0x2545_F491_4F6C_DD1D)
        .rotate_left(31)
        .wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

fn slowness(seed: usize) -> f64 {
    if chance(seed) < 1.0 / 12.0 { 2.0 } else { 1.0 }
}

/// The latencies of the calls of each query in one interval.
fn run(bench: &Bench, queries: &[(&Query, Prepared)], calls: usize, seed: usize) -> Vec<Vec<u64>> {
    let mut turns: Vec<(usize, usize)> = (0..queries.len())
        .flat_map(|query| (0..calls).map(move |call| (query, seed * calls + call)))
        .collect();
    turns.sort_by(|left, right| chance(left.0 + 31 * left.1).total_cmp(&chance(right.0 + 31 * right.1)));
    let call = |(query, at): (usize, usize), from: Duration| {
        queries[query].1.call(&(queries[query].0.arguments)(at)).expect("an answer");
        (query, (bench.clock.now().saturating_sub(from)).as_nanos() as u64)
    };
    let mut seen = vec![Vec::with_capacity(calls); queries.len()];
    if bench.clients == 1 {
        for turn in turns {
            let (query, nanos) = call(turn, bench.clock.now());
            seen[query].push(nanos);
        }
        return seen;
    }
    // So few arrive that about half of the clients are at work.
    let gap = Duration::from_millis(120) / bench.clients as u32;
    let began = bench.clock.now();
    let mut arrival = began;
    let arrivals: Vec<Duration> = (0..turns.len())
        .map(|at| {
            arrival += gap.mul_f64(-(1.0 - chance(at + seed)).ln());
            arrival
        })
        .collect();
    let next = AtomicUsize::new(0);
    let client = || {
        let mut seen = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::SeqCst);
            let Some(turn) = turns.get(at) else { return seen };
            bench.clock.wait(arrivals[at].saturating_sub(bench.clock.now()));
            seen.push(call(*turn, arrivals[at]));
        }
    };
    let all = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..bench.clients).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect::<Vec<_>>()
    });
    all.into_iter().for_each(|(query, nanos)| seen[query].push(nanos));
    seen
}

fn typical(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2
}

fn drift(bench: &Bench, model: &Model, effort: &Effort, times: f64) -> Drift {
    (bench.slow)(times);
    let inner = |axis: &'_ [u64]| axis[1..axis.len() - 1].to_vec();
    let (requests, tuples) = (inner(effort.grid.requests()), inner(effort.grid.tuples()));
    let grid = Grid::new(&requests, &tuples, &effort.grid.bytes()[..1]).expect("a grid");
    let (samples, clock) = (effort.samples / 4 + 1, bench.clock.clone());
    let options = Options {
        grid,
        intervals: 8,
        samples,
        clients: bench.measuring,
        clock,
        seed: 77,
        ..Options::default()
    };
    model.drift(&bench.store, &options).expect("a measurement")
}

/// A workload in a store, and what was seen of its queries.
struct Trial {
    workload: &'static Workload,
    queries: Vec<(&'static Query, Prepared)>,
    /// For each interval, the latencies of each query.
    intervals: Vec<Vec<Histogram>>,
    /// The same without the store's waiting, of all queries and intervals together.
    control: Vec<u64>,
}

impl Trial {
    fn new(workload: &'static Workload, db: &Database) -> Trial {
        script(db, workload.schema);
        (workload.fill)(db);
        let prepared = |query: &'static Query| (query, db.prepare(query.sql).expect("a plan"));
        let queries = workload.queries.iter().map(prepared).collect();
        Trial { workload, queries, intervals: Vec::new(), control: Vec::new() }
    }

    /// One more interval, in which the store is so many times slower; and the control.
    fn interval(&mut self, bench: &Bench, times: f64, calls: usize) {
        (bench.slow)(times);
        let at = self.intervals.len();
        let seen = run(bench, &self.queries, calls, at);
        self.intervals.push(seen.into_iter().map(Histogram::of).collect());
        (bench.slow)(0.0);
        self.control.extend(run(bench, &self.queries, calls / 50 + 1, at).into_iter().flatten());
    }
}

/// The store is measured and the queries run, interval by interval.
fn alternate(bench: &Bench, trials: &mut [Trial], effort: &Effort) -> Model {
    let mut model: Option<Model> = None;
    for at in 0..effort.intervals {
        (bench.slow)(slowness(2 * at));
        let (grid, clock) = (effort.grid.clone(), bench.clock.clone());
        let options = Options {
            grid,
            intervals: 1,
            samples: effort.samples,
            clients: bench.measuring,
            seed: at as u64,
            clock,
            ..Options::default()
        };
        let measured = Model::measure(&bench.store, &options).expect("a measurement");
        match &mut model {
            Some(model) => model.extend(measured).expect("the same grid"),
            None => model = Some(measured),
        }
        let times = slowness(2 * at + 1);
        trials.iter_mut().for_each(|trial| trial.interval(bench, times, effort.calls));
    }
    model.expect("an interval")
}

fn compare(name: &str, workloads: &[&'static Workload], effort: &Effort) -> Vec<Value> {
    let bench = bench(name);
    let db = Database::open(bench.store.clone()).expect("a database");
    let mut trials: Vec<Trial> = workloads.iter().map(|workload| Trial::new(workload, &db)).collect();
    let model = alternate(&bench, &mut trials, effort);
    let results: Vec<Value> = trials.into_iter().map(|trial| judged(name, trial, &model, effort)).collect();
    let same = drift(&bench, &model, effort, 1.0);
    println!("\n{name} as it was: {same}");
    let drifted = bench.can_drift.then(|| drift(&bench, &model, effort, 1.4));
    if let Some(drifted) = &drifted {
        println!("{name} 1.4 times slower: {drifted}");
    }
    if let Some(file) = &bench.file {
        std::fs::remove_file(file).expect("the file was there");
    }
    let told = |drift: &Drift| json!({"slower": drift.slower, "p": drift.p_value, "usual": drift.usual, "flagged": drift.flagged});
    let with_drift = |mut result: Value| {
        result["same_store"] = told(&same);
        result["drifted_store"] = drifted.as_ref().map(told).into();
        result
    };
    results.into_iter().map(with_drift).collect()
}

/// Predictions beside what was seen.
fn judged(name: &str, trial: Trial, model: &Model, effort: &Effort) -> Value {
    let Trial { workload, queries, intervals, control } = trial;
    let control = Histogram::of(control).distribution().quantile(QUANTILE);
    println!(
        "\n{} on {name}; without waiting, {:.0} % within {:.3} ms",
        workload.name,
        100.0 * QUANTILE,
        ms(control)
    );
    println!(
        "{:34}{:>10}{:>22}{:>10}{:>8}{:>8}{:>8}",
        "query", "predicted", "(band)", "measured", "±", "error", "median"
    );
    let rows = queries.iter().enumerate().map(|(at, (query, prepared))| {
        let [prediction, half] = [QUANTILE, 0.5].map(|quantile| {
            let slo = Slo::new(quantile, Duration::from_millis(100)).expect("a promise");
            prepared.predict(model, slo).expect("a prediction")
        });
        let seen = |quantile| -> Vec<Duration> {
            intervals.iter().map(|all| all[at].distribution().quantile(quantile)).collect()
        };
        row(query, &prediction, seen(QUANTILE), error(&half, typical(seen(0.5))))
    });
    let rows: Vec<Value> = rows.collect();
    let passed = rows.iter().filter(|row| row["passed"] == true).count();
    println!("{passed} of {} within -5 % and +15 %; dependence {:.2}", rows.len(), model.dependence());
    json!({
        "workload": workload.name,
        "store": name,
        "intervals": effort.intervals,
        "samples": effort.samples,
        "calls": effort.calls,
        "control_ms": ms(control),
        "dependence": model.dependence(),
        "queries": rows,
    })
}

/// How much too high a prediction is.
fn error(prediction: &Prediction, measured: Duration) -> f64 {
    prediction.quantile_latency.as_secs_f64() / measured.as_secs_f64() - 1.0
}

/// The standard error of the typical of some times, as a part of it: they are normal but for some bad ones.
fn standard_error(times: &[Duration]) -> f64 {
    let center = typical(times.to_vec());
    let off = typical(times.iter().map(|time| time.abs_diff(center)).collect());
    1.4826 * 1.2533 * off.as_secs_f64() / center.as_secs_f64() / (times.len() as f64).sqrt()
}

fn row(query: &Query, prediction: &Prediction, seen: Vec<Duration>, median_error: f64) -> Value {
    let worst = seen.iter().max().copied().unwrap_or_default();
    let chance = standard_error(&seen);
    let measured = typical(seen);
    let error = error(prediction, measured);
    let passed = ERROR.contains(&error);
    println!(
        "{:34}{:>10.3}{:>22}{:>10.3}{:>7.1}%{:>+7.1}%{:>+7.1}%{}",
        query.name,
        ms(prediction.quantile_latency),
        format!("({:.3} to {:.3})", ms(prediction.band.0), ms(prediction.band.1)),
        ms(measured),
        100.0 * chance,
        100.0 * error,
        100.0 * median_error,
        if passed { "" } else { "  <--" }
    );
    json!({
        "query": query.name,
        "predicted_ms": ms(prediction.quantile_latency),
        "band_ms": [ms(prediction.band.0), ms(prediction.band.1)],
        "measured_ms": ms(measured),
        "measured_standard_error": chance,
        "error": error,
        "median_error": median_error,
        "passed": passed,
        "predicted_worst_ms": ms(prediction.worst),
        "measured_worst_ms": ms(worst),
        "predicted_together_ms": ms(prediction.together),
        "extrapolated": prediction.extrapolated,
    })
}

/// Measures, and returns the results.
pub fn measure(arguments: &Arguments) -> Value {
    let short = arguments.flag("--short");
    let number = |name, short_one, long_one| arguments.number(name, if short { short_one } else { long_one });
    let stores =
        arguments.text("--stores").unwrap_or(if short { "simulated" } else { "simulated,embedded,distant" });
    let named = arguments.text("--workloads").unwrap_or("SCADr,TPC-W");
    let named = |workload: &&Workload| named.split(',').any(|name| name == workload.name);
    let workloads: Vec<&Workload> = [&scadr::WORKLOAD, &tpcw::WORKLOAD].into_iter().filter(named).collect();
    let (requests, tuples): (&[u64], &[u64]) =
        if short { (&[1, 10, 100], &[1, 20, 100]) } else { (&[1, 3, 10, 30, 100], &[1, 10, 30, 100]) };
    let mut results = Vec::new();
    for store in stores.split(',') {
        // Of what is far away only the number of requests and tuples counts.
        let bytes: &[u64] = if store == "embedded" { &[64, 256] } else { &[256] };
        // Where nobody waits there is time to see the tail well.
        let often = if store == "simulated" { 20_000 } else { 5_000 };
        let effort = Effort {
            intervals: number("--intervals", 3, 12),
            samples: number("--samples", 300, often),
            calls: number("--calls", 300, often),
            grid: Grid::new(requests, tuples, bytes).expect("a grid"),
        };
        results.extend(compare(store, &workloads, &effort));
    }
    json!({"quantile": QUANTILE, "allowed_error": [ERROR.start(), ERROR.end()], "runs": results})
}
