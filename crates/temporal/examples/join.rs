//! How many events a second a temporal join takes: by how long rows live (trill.txt, Fig. 4c), and of streams
//! that come in the order of the key (trill.txt §6.2), looked up by hash and merged.
//!
//! `cargo run --release --example join -p whimbrel-temporal [-- TICKS…]`

use arrow::array::{Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use std::sync::Arc;
use std::time::Instant;
use whimbrel_temporal::operators::{Join, MergeJoin};
use whimbrel_temporal::{Batch, INFINITY, Message, Operator, Other};

const KEYS: u64 = 100_000;
const EVENTS: usize = 2_000_000;
const BATCH: usize = 20_000;
const RUNS: usize = 5;

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("key"), field("value")]))
}

/// Events in batches, five of them at an instant; `key` says what key an event has.
fn batches(lives: &Other, mut key: impl FnMut(usize) -> i64) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    for first in (0..EVENTS / 2).step_by(BATCH) {
        let events = first..first + BATCH;
        let times: Vec<i64> = events.clone().map(|event| event as i64 * 2 / 10).collect();
        let keys: Int64Array = events.clone().map(&mut key).collect();
        let values: Int64Array = events.map(|event| event as i64).collect();
        let columns: Vec<Arc<dyn Array>> = vec![Arc::new(keys), Arc::new(values)];
        let rows = RecordBatch::try_new(schema(), columns)?;
        messages.push(Message::Batch(Batch::new(times.into(), lives.clone(), rows)));
    }
    messages.push(Message::Punctuation(INFINITY));
    Ok(messages)
}

/// Keys by chance.
fn by_chance(seed: u64) -> impl FnMut(usize) -> i64 {
    let mut dice = seed;
    move |_| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice % KEYS) as i64
    }
}

/// Prints the events a second of the first run and of the median one, and what the join kept at most.
fn measure(
    name: &str,
    left: &[Message],
    right: &[Message],
    fresh: impl Fn() -> Box<dyn Operator>,
) -> Result<()> {
    let (mut rates, mut pairs, mut kept) = (Vec::new(), 0, 0);
    for run in 0..RUNS {
        let mut join = fresh();
        let mut out = Vec::new();
        pairs = 0;
        let begin = Instant::now();
        let rows = |message: Message| if let Message::Batch(batch) = message { batch.len() } else { 0 };
        for (left, right) in left.iter().zip(right) {
            for (input, message) in [(0, left), (1, right)] {
                join.push(input, message.clone(), &mut out)?;
                while !out.is_empty() {
                    pairs += out.drain(..).map(rows).sum::<usize>();
                    join.proceed(&mut out)?;
                }
            }
            // Counting is not part of the work.
            if run + 1 == RUNS {
                kept = kept.max(join.held().rows);
            }
        }
        rates.push(EVENTS as f64 / begin.elapsed().as_secs_f64() / 1e6);
    }
    let first = rates[0];
    rates.sort_by(f64::total_cmp);
    let median = rates[RUNS / 2];
    println!("{name:>20} {first:8.1} {median:8.1} million events/s, {pairs} pairs, {kept} rows kept");
    Ok(())
}

fn hash_join() -> Box<dyn Operator> {
    Box::new(Join::new(schema(), schema(), vec![0], vec![0]))
}

fn merge_join() -> Box<dyn Operator> {
    Box::new(MergeJoin::new(schema(), schema(), vec![0], vec![0], false))
}

fn main() -> Result<()> {
    println!("{:>20} {:>8} {:>8}", "", "first", "median");
    let lifetimes: Vec<i64> = std::env::args().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
    let all = lifetimes.is_empty();
    let lifetimes = if all { vec![100, 6_000, 60_000, 360_000] } else { lifetimes };
    let points = batches(&Other::After(1), by_chance(11))?;
    for ticks in lifetimes {
        let rows = batches(&Other::After(ticks), by_chance(7))?;
        measure(&format!("{ticks} ticks"), &rows, &points, hash_join)?;
    }
    if !all {
        return Ok(());
    }
    let (left, right) =
        (batches(&Other::Open, |event| event as i64)?, batches(&Other::Open, |event| event as i64 / 2)?);
    measure("in order, by hash", &left, &right, hash_join)?;
    measure("in order, merged", &left, &right, merge_join)
}
