//! Latencies, predicted.

use pyo3::prelude::*;
use std::time::Duration;
use whimbrel_bounded::Database;
use whimbrel_bounded::predict::{self, Chart, Knob, Options, Slo, Sweep};

use super::detached;
use crate::error::invalid;

/// Whether a promise holds of a query, and how sure that is. Times are in seconds, and those of a quantile: of a promise
/// `"99% under 50ms"`, that of the 99th percentile.
#[pyclass(frozen, module = "whimbrel.bounded")]
#[derive(Debug, Clone)]
pub struct Prediction {
    /// What was asked.
    #[pyo3(get)]
    slo: String,
    /// Whether it holds in every interval that was measured, with samples enough to say so, and nothing is in it that was
    /// not measured: a fan-out beyond the largest, a commit.
    #[pyo3(get)]
    holds: bool,
    /// How likely it holds in an interval.
    #[pyo3(get)]
    probability: f64,
    /// The 90 % confidence interval of that.
    #[pyo3(get)]
    probability_band: (f64, f64),
    /// In a typical interval.
    #[pyo3(get)]
    latency: f64,
    /// Its 90 % confidence interval.
    #[pyo3(get)]
    band: (f64, f64),
    /// In the worst interval.
    #[pyo3(get)]
    worst: f64,
    /// In each interval, as they were measured.
    #[pyo3(get)]
    intervals: Vec<f64>,
    /// Rounds of requests that a call takes, one after the other.
    #[pyo3(get)]
    rounds: usize,
    /// Why one may doubt it.
    #[pyo3(get)]
    doubts: Vec<String>,
    text: String,
}

impl From<predict::Prediction> for Prediction {
    fn from(said: predict::Prediction) -> Prediction {
        Prediction {
            slo: said.slo.to_string(),
            holds: said.holds,
            probability: said.probability,
            probability_band: said.probability_band,
            latency: said.quantile_latency.as_secs_f64(),
            band: (said.band.0.as_secs_f64(), said.band.1.as_secs_f64()),
            worst: said.worst.as_secs_f64(),
            intervals: said.intervals.iter().map(Duration::as_secs_f64).collect(),
            rounds: said.rounds,
            doubts: said.doubts(),
            text: said.to_string(),
        }
    }
}

#[pymethods]
impl Prediction {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        let holds = if self.holds { "True" } else { "False" };
        format!("Prediction(slo={:?}, holds={holds}, latency={:.6})", self.slo, self.latency)
    }
}

/// The quantile of a query's latency against a limit in it.
#[pyclass(frozen, module = "whimbrel.bounded")]
#[derive(Debug)]
pub struct LatencyChart {
    chart: Chart,
}

#[pymethods]
impl LatencyChart {
    /// The largest limit that was tried with which the promise holds.
    #[getter]
    fn largest(&self) -> Option<u64> {
        self.chart.largest()
    }

    /// The limits that were tried, and what was predicted for each.
    #[getter]
    fn points(&self) -> Vec<(u64, Prediction)> {
        self.chart.points.iter().map(|(limit, said)| (*limit, said.clone().into())).collect()
    }

    /// The picture, as SVG.
    #[getter]
    fn svg(&self) -> String {
        self.chart.svg()
    }

    fn _repr_svg_(&self) -> String {
        self.chart.svg()
    }

    fn __str__(&self) -> String {
        self.chart.to_string()
    }

    fn __repr__(&self) -> String {
        format!("LatencyChart({:?})", self.chart.to_string())
    }
}

/// Measures the store of a database and keeps what was measured in it.
pub fn measure(py: Python<'_>, database: &Database, options: &Options, add: bool) -> PyResult<()> {
    detached(py, "", || database.measure_and_keep(options, add)).map(drop)
}

/// What the store's model says of a promise.
pub fn predicted(
    py: Python<'_>,
    database: &Database,
    query: &whimbrel_bounded::Prepared,
    sql: &str,
    slo: &str,
) -> PyResult<Prediction> {
    detached(py, sql, || query.predict(&database.measured()?, slo.parse::<Slo>()?)).map(Prediction::from)
}

/// The promise against a limit.
pub fn chart(
    py: Python<'_>,
    database: &Database,
    sql: &str,
    slo: &str,
    limit: &str,
    values: Vec<u64>,
) -> PyResult<LatencyChart> {
    if values.is_empty() {
        return Err(invalid("values: give at least one limit to try"));
    }
    let drawn = detached(py, sql, || {
        let sweep = Sweep { knob: limit.parse::<Knob>()?, values };
        database.chart(sql, &database.measured()?, slo.parse::<Slo>()?, &sweep)
    });
    Ok(LatencyChart { chart: drawn? })
}
