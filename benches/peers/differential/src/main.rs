//! Runs one query of the benchmark with differential dataflow, and says how long it took.
//!
//! ```text
//! differential-peer FILE WORKERS hopping
//! differential-peer FILE WORKERS join TICKS
//! ```
//!
//! `FILE` holds little-endian `i64`s: all keys, then all values. Event `i` happens at tick `i / 10`.

mod hopping;
mod join;

use std::sync::Arc;
use std::time::Instant;

struct Events {
    keys: Vec<i64>,
    values: Vec<i64>,
}

impl Events {
    fn read(path: &str) -> std::io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let mut keys: Vec<i64> =
            bytes.as_chunks::<8>().0.iter().map(|word| i64::from_le_bytes(*word)).collect();
        let values = keys.split_off(keys.len() / 2);
        Ok(Events { keys, values })
    }
}

/// Result rows, and the sums of their two columns.
#[derive(Clone, Copy, Default)]
struct Totals {
    rows: i64,
    count: i64,
    sum: i64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (path, workers, window) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [path, workers, "hopping"] => (path, workers, None),
        [path, workers, "join", window] => (path, workers, Some(window.parse()?)),
        _ => return Err("usage: differential-peer FILE WORKERS hopping | join TICKS".into()),
    };
    let events = Arc::new(Events::read(path)?);
    let start = Instant::now();
    let guards = timely::execute(timely::Config::process(workers.parse()?), move |worker| match window {
        None => hopping::hopping(worker, &events),
        Some(window) => join::join(worker, &events, window),
    })?;
    let mut all = Totals::default();
    for totals in guards.join() {
        let totals = totals?;
        all.rows += totals.rows;
        all.count += totals.count;
        all.sum += totals.sum;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(r#"{{"seconds": {seconds}, "rows": {}, "count": {}, "sum": {}}}"#, all.rows, all.count, all.sum);
    Ok(())
}
