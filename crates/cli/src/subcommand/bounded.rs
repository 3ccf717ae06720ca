//! `whimbrel bounded`: how fast a store is, and whether a bounded query on it will be fast enough.

use crate::arguments::{Bounded, Predict};
use crate::error::{Error, Result};
use std::path::Path;
use std::time::Duration;
use whimbrel_bounded::predict::Options;
use whimbrel_bounded::{self as bounded, Database};

/// Measures a store, or predicts the latency of a query on it.
///
/// # Errors
/// `Query` if the store cannot be opened or was not measured, or the query has no bound.
pub fn run(bounded: &Bounded) -> Result {
    match bounded {
        Bounded::Measure { store, intervals, samples, clients, pause, add } => {
            let pause = Duration::from_secs(*pause);
            let (intervals, samples, clients) = (*intervals, *samples, *clients);
            let options = Options { intervals, samples, clients, pause, ..Options::default() };
            measure(store, &options, *add).map_err(failed)
        }
        Bounded::Predict(arguments) => predict(arguments),
    }
}

/// The error of a database as one of the command.
fn failed(error: bounded::Error) -> Error {
    Error::Query(error.to_string())
}

/// Measures a store, and keeps the model in it.
fn measure(store: &str, options: &Options, add: bool) -> Result<(), bounded::Error> {
    let db = Database::open_url(store, bounded::Options::default())?;
    let model = db.measure_and_keep(options, add)?;
    println!("{} intervals, each fan-out at least {} times in each", model.intervals(), model.samples());
    Ok(())
}

/// Prints a prediction, and writes its picture to a file if one is given.
fn predict(arguments: &Predict) -> Result {
    let (text, picture) = prediction_text(arguments).map_err(failed)?;
    println!("{text}");
    match (&arguments.svg, picture) {
        (Some(path), Some(svg)) => {
            std::fs::write(path, svg).map_err(|error| Error::io(path.display(), &error))
        }
        _ => Ok(()),
    }
}

/// The text of the prediction, and its picture as SVG if a limit varies.
fn prediction_text(arguments: &Predict) -> Result<(String, Option<String>), bounded::Error> {
    let Predict { store, query, slo, vary, .. } = arguments;
    // To open a file that does not exist would create it, without measurements.
    let is_file = !store.contains("://") && store != "memory:";
    if is_file && !Path::new(store).exists() {
        return Err(bounded::Error::Data(format!("there is no file {store}")));
    }
    let db = Database::open_url(store, bounded::Options::default())?;
    let model = db.measured()?;
    Ok(match vary.as_slice() {
        [] => (db.prepare(query)?.predict(&model, *slo)?.to_string(), None),
        [sweep] => {
            let chart = db.chart(query, &model, *slo, sweep)?;
            (chart.to_string(), Some(chart.svg()))
        }
        [across, up, ..] => {
            let map = db.heat_map(query, &model, *slo, across, up)?;
            (map.to_string(), Some(map.svg()))
        }
    })
}
