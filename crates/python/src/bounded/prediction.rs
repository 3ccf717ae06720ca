//! Predicted latencies, from a model of the store that was measured before.
//!
//! The classes have the numbers for programs, and their text is the one that the command prints.

use pyo3::prelude::*;
use std::time::Duration;
use whimbrel_bounded::Database;
use whimbrel_bounded::predict::{Chart, Knob, Options, Prediction as StorePrediction, Slo, Sweep};

use super::call::call_detached;
use crate::error::invalid;

/// Whether a query meets a service level objective, and how sure that is. Latencies are in seconds, and those
/// of the objective's quantile: of `"99% under 50ms"`, the 99th percentile.
#[pyclass(frozen, module = "whimbrel.bounded")]
#[derive(Debug, Clone)]
pub struct Prediction {
    /// The objective.
    #[pyo3(get)]
    slo: String,
    /// Whether it is met in every measured interval, with enough samples, and the query does nothing that was
    /// not measured, such as a larger fan-out or a commit.
    #[pyo3(get)]
    holds: bool,
    /// The probability that it is met in an interval.
    #[pyo3(get)]
    probability: f64,
    /// The 90 % confidence interval of the probability.
    #[pyo3(get)]
    probability_band: (f64, f64),
    /// The latency in a typical interval.
    #[pyo3(get)]
    latency: f64,
    /// The 90 % confidence interval of the latency.
    #[pyo3(get)]
    band: (f64, f64),
    /// The latency in the worst interval.
    #[pyo3(get)]
    worst: f64,
    /// The latency in each interval, in the order of measurement.
    #[pyo3(get)]
    intervals: Vec<f64>,
    /// The rounds of requests of a call, one after the other.
    #[pyo3(get)]
    rounds: usize,
    /// The reasons to doubt the prediction.
    #[pyo3(get)]
    doubts: Vec<String>,
    /// The text that the command prints.
    text: String,
}

impl From<StorePrediction> for Prediction {
    fn from(prediction: StorePrediction) -> Prediction {
        Prediction {
            slo: prediction.slo.to_string(),
            holds: prediction.holds,
            probability: prediction.probability,
            probability_band: prediction.probability_band,
            latency: prediction.quantile_latency.as_secs_f64(),
            band: (prediction.band.0.as_secs_f64(), prediction.band.1.as_secs_f64()),
            worst: prediction.worst.as_secs_f64(),
            intervals: prediction.intervals.iter().map(Duration::as_secs_f64).collect(),
            rounds: prediction.rounds,
            doubts: prediction.doubts(),
            text: prediction.to_string(),
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

/// The latency of a query for several values of one of its limits.
#[pyclass(frozen, module = "whimbrel.bounded")]
#[derive(Debug)]
pub struct LatencyChart {
    chart: Chart,
}

#[pymethods]
impl LatencyChart {
    /// The largest limit that was tried with which the objective is met.
    #[getter]
    fn largest(&self) -> Option<u64> {
        self.chart.largest()
    }

    /// The limits that were tried, each with its prediction.
    #[getter]
    fn points(&self) -> Vec<(u64, Prediction)> {
        self.chart.points.iter().map(|(limit, prediction)| (*limit, prediction.clone().into())).collect()
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

/// Measures the store of a database, and keeps the model in it.
///
/// # Errors
/// The exception for the error of the store.
pub fn measure(py: Python<'_>, database: &Database, options: &Options, add: bool) -> PyResult<()> {
    call_detached(py, "", || database.measure_and_keep(options, add)).map(drop)
}

/// Predicts whether a query meets an objective.
///
/// # Errors
/// `InvalidError` if the objective is wrong, or the store was not measured.
pub fn predict(
    py: Python<'_>,
    database: &Database,
    query: &whimbrel_bounded::Prepared,
    sql: &str,
    slo: &str,
) -> PyResult<Prediction> {
    call_detached(py, sql, || query.predict(&database.measured()?, slo.parse::<Slo>()?)).map(Prediction::from)
}

/// Predicts the latency of a query for several values of a limit.
///
/// # Errors
/// As [`predict`]; `InvalidError` if there are no values, or there is no such limit.
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
    let chart = call_detached(py, sql, || {
        let sweep = Sweep { knob: limit.parse::<Knob>()?, values };
        database.chart(sql, &database.measured()?, slo.parse::<Slo>()?, &sweep)
    });
    Ok(LatencyChart { chart: chart? })
}
