//! `whimbrel bench`: how long queries take. A run is planning, running and looking at all rows; nothing is
//! printed meanwhile.

use super::whole;
use crate::arguments::{Settings, Text};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::script::each_statement;
use datafusion::arrow::array::{ArrayRef, Float64Array, StringArray, UInt64Array};
use datafusion::arrow::record_batch::RecordBatch;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whimbrel_sql::Planned;

/// How many characters of a query are shown.
const SHOWN: usize = 60;

/// A measured query.
struct Measured {
    query: String,
    rows: u64,
    /// Sorted.
    times: Vec<Duration>,
}

/// Measures each query; other statements are run once.
pub fn run(text: &Text, runs: u32, warmup: u32, settings: &Settings) -> Outcome {
    let mut client = Client::new(settings);
    let (text, name) = whole(text)?;
    let mut measured = Vec::new();
    each_statement(&text, name.as_deref(), 1, |sql| match client.plan(sql)? {
        Planned::Query(_) => {
            measured.push(measure(&mut client, sql, runs, warmup)?);
            Ok(())
        }
        other => client.act(other, sql),
    })?;
    if measured.is_empty() {
        return Err(Failure::Usage("there is no query to measure".into()));
    }
    let rows = table(&measured).map_err(|error| Failure::of(&error.into(), ""))?;
    client.table(&rows)
}

fn measure(client: &mut Client, sql: &str, runs: u32, warmup: u32) -> Outcome<Measured> {
    let mut rows = 0;
    let mut times = Vec::new();
    for run in 0..warmup + runs {
        let since = Instant::now();
        if let Planned::Query(stream) = client.plan(sql)? {
            rows = client.runner.each(&stream, sql, client.runner.progress, |_| Ok(()))?.out;
        }
        if run >= warmup {
            times.push(since.elapsed());
        }
    }
    times.sort_unstable();
    let words: Vec<&str> = sql.split_whitespace().collect();
    Ok(Measured { query: words.join(" ").chars().take(SHOWN).collect(), rows, times })
}

impl Measured {
    fn median(&self) -> Duration {
        let (middle, times) = (self.times.len() / 2, &self.times);
        match times.len() % 2 {
            0 => (times[middle - 1] + times[middle]) / 2,
            _ => times[middle],
        }
    }
}

fn table(measured: &[Measured]) -> Result<RecordBatch, datafusion::arrow::error::ArrowError> {
    let times = |of: fn(&Measured) -> Duration| -> ArrayRef {
        let rounded = |m| (of(m).as_secs_f64() * 1e6).round() / 1e3;
        Arc::new(Float64Array::from_iter_values(measured.iter().map(rounded)))
    };
    RecordBatch::try_from_iter([
        ("query", Arc::new(StringArray::from_iter_values(measured.iter().map(|m| &m.query))) as ArrayRef),
        ("rows", Arc::new(UInt64Array::from_iter_values(measured.iter().map(|m| m.rows)))),
        // There is at least one run.
        ("min_ms", times(|m| m.times[0])),
        ("median_ms", times(Measured::median)),
        ("max_ms", times(|m| m.times[m.times.len() - 1])),
    ])
}
