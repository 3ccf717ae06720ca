//! How many events a second a temporal join takes, by how long rows live (trill.txt, Fig. 4c).
//!
//! `cargo run --release --example join -p whimbrel-temporal [-- TICKS…]`

use arrow::array::{Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use std::sync::Arc;
use std::time::Instant;
use whimbrel_temporal::operators::Join;
use whimbrel_temporal::{Batch, INFINITY, Message, Operator, Other};

const KEYS: u64 = 100_000;
const EVENTS: usize = 2_000_000;
const BATCH: usize = 20_000;
const RUNS: usize = 5;

fn schema() -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![field("key"), field("value")]))
}

/// Events in batches, five of them at an instant, of keys by chance.
fn batches(seed: u64, lifetime: i64) -> Result<Vec<Message>> {
    let mut dice = seed;
    let mut roll = move || {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice
    };
    let mut messages = Vec::new();
    for first in (0..EVENTS / 2).step_by(BATCH) {
        let times: Vec<i64> = (first..first + BATCH).map(|event| event as i64 * 2 / 10).collect();
        let keys: Int64Array = (0..BATCH).map(|_| (roll() % KEYS) as i64).collect();
        let values: Int64Array = (first as i64..(first + BATCH) as i64).collect();
        let columns: Vec<Arc<dyn Array>> = vec![Arc::new(keys), Arc::new(values)];
        let rows = RecordBatch::try_new(schema(), columns)?;
        messages.push(Message::Batch(Batch::new(times.into(), Other::After(lifetime), rows)));
    }
    messages.push(Message::Punctuation(INFINITY));
    Ok(messages)
}

/// Prints the events a second of the first run and of the median one.
fn measure(lifetime: i64) -> Result<()> {
    let (left, right) = (batches(7, lifetime)?, batches(11, 1)?);
    let (mut rates, mut pairs) = (Vec::new(), 0);
    for _ in 0..RUNS {
        let mut join = Join::new(schema(), schema(), vec![0], vec![0]);
        let mut out = Vec::new();
        pairs = 0;
        let begin = Instant::now();
        let rows = |message: Message| if let Message::Batch(batch) = message { batch.len() } else { 0 };
        for (left, right) in left.iter().zip(&right) {
            for (input, message) in [(0, left), (1, right)] {
                join.push(input, message.clone(), &mut out)?;
                while !out.is_empty() {
                    pairs += out.drain(..).map(rows).sum::<usize>();
                    join.proceed(&mut out)?;
                }
            }
        }
        rates.push(EVENTS as f64 / begin.elapsed().as_secs_f64() / 1e6);
    }
    let first = rates[0];
    rates.sort_by(f64::total_cmp);
    println!("{lifetime:>12} {first:8.1} {:8.1} million events/s, {pairs} pairs", rates[RUNS / 2]);
    Ok(())
}

fn main() -> Result<()> {
    println!("{:>12} {:>8} {:>8}", "ticks", "first", "median");
    let lifetimes: Vec<i64> = std::env::args().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
    match lifetimes.is_empty() {
        true => [100, 6_000, 60_000, 360_000].into_iter().try_for_each(measure),
        false => lifetimes.into_iter().try_for_each(measure),
    }
}
