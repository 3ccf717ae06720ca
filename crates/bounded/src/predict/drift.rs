//! Whether a store is still the one that was measured.
//!
//! Each interval, old or fresh, becomes one number: how much slower it is than the model's typical one, as
//! the mean over shapes and quantiles. Whether the fresh numbers come from where the old ones do is asked by
//! the test of Mann and Whitney (1947), which does not mind that a bad interval is many times slower than the
//! others. It takes all intervals for draws of their own. Fresh ones follow each other, and what the machine
//! does meanwhile is in all of them; so they have to be farther away, too, than intervals of the model are
//! from each other.

use super::histogram::Distribution;
use super::measure::Options;
use super::model::{Interval, Model};
use super::shape::Shape;
use crate::error::Result;
use crate::store::Store;
use std::fmt;

/// How a store differs from its model.
#[derive(Debug, Clone, PartialEq)]
pub struct Drift {
    /// How many times slower the store is than the model says, in a typical interval.
    pub slower: f64,
    /// How likely intervals of the same store differ as much.
    pub p_value: f64,
    /// How many times slower a bad interval of the model is than its typical one: three standard deviations,
    /// as the middle half of the intervals shows them.
    pub usual: f64,
    /// The same for each shape that was measured again.
    pub shapes: Vec<(Shape, f64)>,
    /// Whether the model should be made again: the difference is hardly chance, more than a tenth, and more
    /// than usual.
    pub flagged: bool,
}

/// What the quantiles are that are compared: the typical call, and the slow ones.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// How unlikely the difference has to be.
const CHANCE: f64 = 0.05;
/// How large it has to be.
const TENTH: f64 = 1.1;
/// How many standard deviations are more than usual.
const UNUSUAL: f64 = 3.0;
/// Of the normal distribution, in median absolute deviations.
const DEVIATION: f64 = 1.4826;

impl Model {
    /// Measures the store again, at the fan-outs of `options`, and compares. At fan-outs of the model the
    /// difference is that of the store alone; others try how well the model interpolates, too. Eight fresh
    /// intervals against twelve, two of them bad, are enough to tell a drift from chance.
    ///
    /// # Errors
    /// As [`measure`](Model::measure).
    pub fn drift(&self, store: &dyn Store, options: &Options) -> Result<Drift> {
        let fresh = self.measure_again(store, options)?;
        let shapes = fresh.grid.shapes();
        let typical: Vec<[f64; QUANTILES.len()]> = shapes.iter().map(|shape| self.typical(shape)).collect();
        let score = |model: &Model, interval: &Interval| -> Vec<f64> {
            let shapes = shapes.iter().zip(&typical);
            shapes.map(|(shape, typical)| distance(&model.of_shape(interval, shape).0, typical)).collect()
        };
        let old: Vec<Vec<f64>> = self.intervals.iter().map(|interval| score(self, interval)).collect();
        let new: Vec<Vec<f64>> = fresh.intervals.iter().map(|interval| score(&fresh, interval)).collect();
        let mean = |scores: &Vec<f64>| scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        let (olds, news): (Vec<f64>, Vec<f64>) =
            (old.iter().map(mean).collect(), new.iter().map(mean).collect());
        let p_value = mann_whitney(&olds, &news);
        let slower = middle(news).exp();
        let usual = (UNUSUAL * deviation(olds)).exp();
        let unusual = slower.max(1.0 / slower) > usual.max(TENTH);
        let of_shape = |at: usize| middle(new.iter().map(|scores| scores[at]).collect()).exp();
        Ok(Drift {
            slower,
            p_value,
            usual,
            shapes: shapes.iter().enumerate().map(|(at, shape)| (*shape, of_shape(at))).collect(),
            flagged: p_value < CHANCE && unusual,
        })
    }

    /// The median over the intervals of each quantile of a shape, as a logarithm.
    fn typical(&self, shape: &Shape) -> [f64; QUANTILES.len()] {
        let all: Vec<Distribution> =
            self.intervals.iter().map(|interval| self.of_shape(interval, shape).0).collect();
        QUANTILES.map(|quantile| middle(all.iter().map(|latency| logarithm(latency, quantile)).collect()))
    }
}

/// The logarithm of a quantile.
fn logarithm(latency: &Distribution, quantile: f64) -> f64 {
    (latency.quantile(quantile).as_nanos().max(1) as f64).ln()
}

/// How much slower, as a logarithm.
fn distance(latency: &Distribution, typical: &[f64; QUANTILES.len()]) -> f64 {
    let each =
        QUANTILES.iter().zip(typical).map(|(quantile, typical)| logarithm(latency, *quantile) - typical);
    each.sum::<f64>() / QUANTILES.len() as f64
}

/// The median of some numbers.
fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    match numbers.len() {
        0 => 0.0,
        n if n.is_multiple_of(2) => (numbers[n / 2 - 1] + numbers[n / 2]) / 2.0,
        n => numbers[n / 2],
    }
}

/// The standard deviation of numbers of which some may be far away.
fn deviation(numbers: Vec<f64>) -> f64 {
    let center = middle(numbers.clone());
    DEVIATION * middle(numbers.into_iter().map(|number| (number - center).abs()).collect())
}

/// How likely two samples of the same distribution are as far apart, exactly: of all ways to choose the
/// places of the second among all, the share in which it wins as rarely or as often as here. Ties count as
/// half.
fn mann_whitney(first: &[f64], second: &[f64]) -> f64 {
    let (n, m) = (first.len(), second.len());
    let wins: f64 = second
        .iter()
        .flat_map(|s| {
            first.iter().map(move |f| {
                if s > f {
                    1.0
                } else if s < f {
                    0.0
                } else {
                    0.5
                }
            })
        })
        .sum();
    let fewer = wins.min((n * m) as f64 - wins).floor() as usize;
    // ways[j][w]: in how many ways j of the second, among those placed so far, have won w times.
    let mut ways = vec![vec![0.0_f64; n * m + 1]; m + 1];
    ways[0][0] = 1.0;
    for place in 0..n + m {
        for chosen in (0..m.min(place + 1)).rev() {
            let below = place - chosen;
            if below > n {
                continue;
            }
            for won in (0..=n * m - below.min(n * m)).rev() {
                ways[chosen + 1][won + below] += ways[chosen][won];
            }
        }
    }
    let all: f64 = ways[m].iter().sum();
    let extreme: f64 = ways[m][..=fewer].iter().sum();
    (2.0 * extreme / all).min(1.0)
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict =
            if self.flagged { "the model is out of date: measure again" } else { "the model still holds" };
        write!(
            f,
            "{verdict}; typically {:.2} times as slow as it says (p = {:.3}; {:.2} times is usual)",
            self.slower, self.p_value, self.usual
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_is_exact() {
        // All of the second above all of the first: one way of 6 over 3 = 20, on either side.
        assert!((mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]) - 0.1).abs() < 1e-12);
        assert!((mann_whitney(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]) - 0.1).abs() < 1e-12);
        // One of two above both, one between: 2 over 1 ways to win once or less of 6.
        assert!((mann_whitney(&[1.0, 3.0], &[2.0, 4.0]) - 2.0 * 2.0 / 6.0).abs() < 1e-12);
        assert!((mann_whitney(&[1.0, 2.0], &[1.0, 2.0]) - 1.0).abs() < 1e-12);
    }
}
