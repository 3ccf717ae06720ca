//! The latency model of a store: a histogram for every shape of a round and every interval of time, and the
//! cost of local work.
//!
//! Invariant: an interval has one histogram for each shape of the grid, in the grid's order. All intervals of
//! a model were measured over one grid.

use super::grid::{self, Grid};
use super::histogram::{Distribution, Histogram};
use super::shape::{Operator, Shape};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A model of the latencies of a store (piql.txt §6.1, §6.3).
///
/// It is made by [`measure`](Model::measure), kept in the store or in a file, and asked by
/// [`Prepared::predict`](crate::Prepared::predict). It holds nothing of a schema or a query, so one model
/// answers for all queries over stores of the same kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The shapes that were measured.
    pub(super) grid: Grid,
    /// The intervals, in the order of their measurement.
    pub(super) intervals: Vec<Interval>,
    /// The cost of local work.
    pub(super) local: Local,
    /// How the store answers a round of several shapes.
    pub(super) mixed_round: MixedRound,
    /// How latencies grow with requests.
    pub(super) fan_out: FanOut,
}

/// How the latency of a round grows with its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FanOut {
    /// Each adds something, as where one processor answers them.
    Sum,
    /// The slowest counts, as where many do.
    Slowest,
}

/// What a store does with requests of different shapes in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MixedRound {
    /// It answers them in parallel: the round takes as long as the longest.
    Parallel,
    /// It answers one after the other, as a store in the same process does.
    Sequential,
}

/// What was seen in one interval of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Interval {
    /// Seconds since 1970.
    pub began: u64,
    pub histograms: Vec<Histogram>,
    /// The correlation between how slow a call is and how slow the next one of the same client is.
    pub dependence: f64,
}

/// What our own part of a call costs, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Local {
    /// A call that asks for nothing.
    pub call: f64,
    /// Reading a value out of a tuple.
    pub value: f64,
    pub operators: Vec<(Operator, Cost)>,
}

/// What an expression of an operator costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cost {
    pub fixed: f64,
    pub row: f64,
}

/// The first bytes of a model.
const MAGIC: &[u8] = b"whimbrel latencies";
/// The version of the format.
const FORMAT: u8 = 1;
impl Model {
    /// The fan-outs at which it was measured.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// How many intervals of time it has.
    pub fn intervals(&self) -> usize {
        self.intervals.len()
    }

    /// When the intervals began, in seconds since 1970.
    pub fn began(&self) -> impl Iterator<Item = u64> {
        self.intervals.iter().map(|interval| interval.began)
    }

    /// The fewest times that a shape was measured in an interval.
    pub fn samples(&self) -> u64 {
        let histograms = self.intervals.iter().flat_map(|interval| &interval.histograms);
        histograms.map(Histogram::count).min().unwrap_or(0)
    }

    /// How much slowness stays from one call to the next: the correlation between consecutive calls, the mean
    /// over the intervals. At zero, rounds can be added as if they knew nothing of each other; at one, they
    /// are slow together.
    pub fn dependence(&self) -> f64 {
        self.intervals.iter().map(|interval| interval.dependence).sum::<f64>()
            / self.intervals.len().max(1) as f64
    }

    /// Takes in the intervals of another model of the same store, measured at another time.
    ///
    /// # Errors
    /// `Invalid` if it was measured at other fan-outs.
    pub fn extend(&mut self, later: Model) -> Result<()> {
        if self.grid != later.grid {
            return Err(Error::invalid(
                "the two models were measured at different fan-outs: measure at the same",
            ));
        }
        self.intervals.extend(later.intervals);
        self.local = later.local;
        self.mixed_round = later.mixed_round;
        self.learn_fan_out();
        Ok(())
    }

    /// The model as bytes, with the version of their format.
    ///
    /// # Errors
    /// `Internal` if it cannot be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let body = postcard::to_stdvec(self).map_err(|error| Error::Internal(error.to_string()))?;
        Ok([MAGIC, &[FORMAT], &body].concat())
    }

    /// Reads what [`to_bytes`](Model::to_bytes) wrote.
    ///
    /// # Errors
    /// `Data` if the bytes are something else, damaged, or of another release.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model> {
        let damaged =
            || Error::Data("the model of latencies is damaged: measure the store again".to_string());
        let body = match bytes.strip_prefix(MAGIC).and_then(<[u8]>::split_first) {
            None => return Err(Error::Data("this is no model of latencies".to_string())),
            Some((&FORMAT, body)) => body,
            Some(_) => {
                return Err(Error::Data(
                    "the model of latencies is of another release: measure the store again".to_string(),
                ));
            }
        };
        let model: Model = postcard::from_bytes(body).map_err(|_| damaged())?;
        let (grid, shapes) = (&model.grid, model.grid.shapes().len());
        let sound = Grid::new(grid.requests(), grid.tuples(), grid.bytes()).is_ok_and(|same| same == *grid)
            && !model.intervals.is_empty()
            && model.intervals.iter().all(|interval| interval.histograms.len() == shapes);
        if sound { Ok(model) } else { Err(damaged()) }
    }

    /// Writes it into a file.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        std::fs::write(&path, self.to_bytes()?).map_err(|error| of_file(path.as_ref(), &error))
    }

    /// Reads it from a file.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be read, `Data` if it is not a model.
    pub fn load(path: impl AsRef<Path>) -> Result<Model> {
        let bytes = std::fs::read(&path).map_err(|error| of_file(path.as_ref(), &error))?;
        Model::from_bytes(&bytes)
    }

    /// The latencies of a shape in an interval, and whether it is beyond what was measured.
    pub(super) fn of_shape(&self, interval: &Interval, shape: &Shape) -> (Distribution, bool) {
        let (requests, far) = self.grid.requests_around(shape);
        let (_, farther) = self.grid.answers_around(shape);
        let measured = |requests| self.of_answers(interval, &Shape { requests, ..*shape });
        let distribution = match requests.as_slice() {
            [(_, only)] => measured(*only),
            [fewer, more] => self.fan_out.between((*fewer, &measured(fewer.1)), (*more, &measured(more.1))),
            _ => Distribution::constant(std::time::Duration::ZERO),
        };
        (distribution, far || farther)
    }

    /// The same where that number of requests was measured.
    fn of_answers(&self, interval: &Interval, shape: &Shape) -> Distribution {
        let shapes = self.grid.shapes();
        let (corners, _) = self.grid.answers_around(shape);
        let corners = corners.into_iter().filter_map(|(weight, corner)| {
            let at = shapes.iter().position(|shape| *shape == corner)?;
            Some((weight, interval.histograms[at].distribution()))
        });
        Distribution::between(&corners.collect::<Vec<_>>())
    }

    /// Learns how latencies grow with the number of requests: every number but the first and the last is
    /// predicted from its neighbours, and what comes nearer to what was measured is taken.
    pub(super) fn learn_fan_out(&mut self) {
        let error =
            |law: FanOut| -> f64 { self.intervals.iter().map(|interval| self.error_of(law, interval)).sum() };
        self.fan_out = match error(FanOut::Sum) <= error(FanOut::Slowest) {
            true => FanOut::Sum,
            false => FanOut::Slowest,
        };
    }

    /// How far the predictions of one interval are from its measurements, by this law.
    fn error_of(&self, law: FanOut, interval: &Interval) -> f64 {
        let mut error = 0.0;
        for shape in self.grid.shapes() {
            let three = self.grid.requests().windows(3).find(|three| three[1] == shape.requests);
            let Some([fewer, this, more]) = three else { continue };
            let (around, _) = grid::between(&[*fewer, *more], *this);
            let [below, above] = around.as_slice() else { continue };
            let of = |requests| self.of_answers(interval, &Shape { requests, ..shape });
            let predicted = law.between((*below, &of(*fewer)), (*above, &of(*more)));
            let measured = of(*this);
            error +=
                [0.5, 0.9, 0.99].map(|quantile| predicted.distance(&measured, quantile)).iter().sum::<f64>();
        }
        error
    }
}

impl FanOut {
    /// Between two numbers of requests, each with its weight.
    fn between(self, fewer: ((f64, u64), &Distribution), more: ((f64, u64), &Distribution)) -> Distribution {
        match self {
            FanOut::Sum => Distribution::between(&[(fewer.0.0, fewer.1.clone()), (more.0.0, more.1.clone())]),
            FanOut::Slowest => {
                Distribution::slowest_between((fewer.0.0, fewer.0.1, fewer.1), (more.0.0, more.0.1, more.1))
            }
        }
    }
}

/// The error for a file that cannot be read or written.
fn of_file(path: &Path, error: &std::io::Error) -> Error {
    Error::Unavailable(format!("`{}`: {error}", path.display()))
}
