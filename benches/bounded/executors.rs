//! The three executors on the queries of TPC-W over a store whose requests take 20 ms each (piql.txt §8.5,
//! Figure 12).
//!
//! ```text
//! cargo run --release -p whimbrel-bounded --example bounded -- \
//!     executors [--short] [--calls n] [--out results.json]
//! ```
//!
//! The parallel executor has to be within 20 % of its rounds times 20 ms; its calls run one after the other.
//! Of the others, which wait for seconds, all calls of a query run at the same time.

use crate::results::{Arguments, ms};
use crate::workloads::{Query, script, tpcw};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use whimbrel_bounded::predict::Histogram;
use whimbrel_bounded::store::{Distant, Latency};
use whimbrel_bounded::{Clock, Database, Executor, MemoryStore, Options, Prepared};

const LATENCY: Duration = Duration::from_millis(20);
const EXECUTORS: [Executor; 3] = [Executor::Lazy, Executor::Simple, Executor::Parallel];

fn run(query: &Query, prepared: &Prepared, calls: usize, executor: Executor) -> Histogram {
    let call = |at: usize| {
        let began = Instant::now();
        prepared.call(&(query.arguments)(at)).expect("an answer");
        began.elapsed().as_nanos() as u64
    };
    if executor == Executor::Parallel {
        return Histogram::of((0..calls).map(call));
    }
    let times = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..calls).map(|at| scope.spawn(move || call(at))).collect();
        calls.into_iter().map(|call| call.join().expect("a call")).collect::<Vec<_>>()
    });
    Histogram::of(times)
}

/// Measures, and returns the results.
pub fn measure(arguments: &Arguments) -> Value {
    let calls = arguments.number("--calls", if arguments.flag("--short") { 2 } else { 16 });
    let near = Arc::new(MemoryStore::default());
    let db = Database::open(near.clone()).expect("a database");
    script(&db, tpcw::SCHEMA);
    (tpcw::WORKLOAD.fill)(&db);
    // Indexes are made while the store is near.
    tpcw::WORKLOAD.queries.iter().for_each(|query| drop(db.prepare(query.sql).expect("a plan")));
    let far = Arc::new(Distant::new(near, Latency::constant(LATENCY), Clock::default(), 1));
    let databases = EXECUTORS.map(|executor| {
        Database::open_with(far.clone(), Options { executor, ..Options::default() }).expect("a database")
    });
    println!(
        "{:34}{:>10}{:>10}{:>10}{:>10}{:>8}",
        "99th percentile, ms", "lazy", "simple", "parallel", "rounds x", "ratio"
    );
    let rows: Vec<Value> = tpcw::WORKLOAD
        .queries
        .iter()
        .map(|query| {
            let slowest = [0, 1, 2].map(|at| {
                let prepared = databases[at].prepare(query.sql).expect("a plan");
                run(query, &prepared, calls, EXECUTORS[at]).distribution().quantile(0.99)
            });
            let least = LATENCY * query.bound.1 as u32;
            let ratio = slowest[2].as_secs_f64() / least.as_secs_f64();
            println!(
                "{:34}{:>10.1}{:>10.1}{:>10.1}{:>10.1}{:>8.2}{}",
                query.name,
                ms(slowest[0]),
                ms(slowest[1]),
                ms(slowest[2]),
                ms(least),
                ratio,
                if ratio <= 1.2 { "" } else { "  <--" }
            );
            json!({
                "query": query.name,
                "lazy_ms": ms(slowest[0]),
                "simple_ms": ms(slowest[1]),
                "parallel_ms": ms(slowest[2]),
                "rounds_times_latency_ms": ms(least),
                "passed": ratio <= 1.2,
            })
        })
        .collect();
    json!({"latency_ms": ms(LATENCY), "calls": calls, "queries": rows})
}
