//! `whimbrel bench`: how long queries take. A run plans the query, runs it and receives all rows. Nothing is
//! printed meanwhile.

use super::input;
use crate::arguments::{Settings, Statements};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::statements::for_each_statement;
use datafusion::arrow::array::{ArrayRef, Float64Array, StringArray, UInt64Array};
use datafusion::arrow::record_batch::RecordBatch;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whimbrel_sql::Planned;

/// The most characters of a query in the table of results.
const QUERY_CHARACTERS: usize = 60;

/// The runs of one query.
struct Measurement {
    query: String,
    rows: u64,
    /// In ascending order; at least one.
    times: Vec<Duration>,
}

/// Measures each query, and runs other statements once.
///
/// # Errors
/// `Usage` if there is no query; `Query` if a statement fails; `Interrupted`.
pub fn run(statements: &Statements, runs: u32, warmup: u32, settings: &Settings) -> Result {
    let mut client = Client::new(settings)?;
    let (text, file) = input::read(statements)?;
    let mut measurements = Vec::new();
    for_each_statement(&text, file.as_deref(), 1, |sql| match client.plan(sql)?.planned {
        Planned::Query(_) => {
            measurements.push(measure(&mut client, sql, runs, warmup)?);
            Ok(())
        }
        other => client.execute(other.into(), sql),
    })?;
    if measurements.is_empty() {
        return Err(Error::Usage("there is no query to measure".into()));
    }
    let rows = table(&measurements).map_err(|error| Error::in_statement(&error.into(), ""))?;
    client.write_batch(&rows)
}

/// Runs a query `warmup` times unmeasured, then `runs` times measured.
fn measure(client: &mut Client, sql: &str, runs: u32, warmup: u32) -> Result<Measurement> {
    let mut rows = 0;
    let mut times = Vec::new();
    for run in 0..warmup + runs {
        let started = Instant::now();
        if let Planned::Query(stream) = client.plan(sql)?.planned {
            rows = client
                .runner
                .for_each_batch(&client.session, &stream, sql, client.runner.progress, |_| Ok(()))?
                .out;
        }
        if run >= warmup {
            times.push(started.elapsed());
        }
    }
    times.sort_unstable();
    let words: Vec<&str> = sql.split_whitespace().collect();
    Ok(Measurement { query: words.join(" ").chars().take(QUERY_CHARACTERS).collect(), rows, times })
}

impl Measurement {
    /// The median of the times.
    fn median(&self) -> Duration {
        let (middle, times) = (self.times.len() / 2, &self.times);
        match times.len() % 2 {
            0 => (times[middle - 1] + times[middle]) / 2,
            _ => times[middle],
        }
    }
}

/// The measurements as rows. Times are in milliseconds.
fn table(measurements: &[Measurement]) -> Result<RecordBatch, datafusion::arrow::error::ArrowError> {
    let times = |of: fn(&Measurement) -> Duration| -> ArrayRef {
        let rounded = |m| (of(m).as_secs_f64() * 1e6).round() / 1e3;
        Arc::new(Float64Array::from_iter_values(measurements.iter().map(rounded)))
    };
    RecordBatch::try_from_iter([
        ("query", Arc::new(StringArray::from_iter_values(measurements.iter().map(|m| &m.query))) as ArrayRef),
        ("rows", Arc::new(UInt64Array::from_iter_values(measurements.iter().map(|m| m.rows)))),
        ("min_ms", times(|m| m.times[0])),
        ("median_ms", times(Measurement::median)),
        ("max_ms", times(|m| m.times[m.times.len() - 1])),
    ])
}
