//! From rounds to a call: sequential rounds are convolved. The shapes of one round take the maximum of their
//! latencies or their sum, as the store was measured to do (piql.txt §6.2).

use super::histogram::Distribution;
use super::model::{Interval, Local, MixedRound, Model};
use super::scratch::COLUMNS;
use super::shape::{Outline, Shape};
use crate::execute::Executor;

/// The latency of a call in one interval.
pub(super) struct Latency {
    /// Each round as if it knew nothing of the others.
    pub rounds: Vec<Distribution>,
    /// Our own part, in nanoseconds.
    pub local: f64,
    /// Some round is beyond what was measured.
    pub beyond: bool,
}

impl Latency {
    /// Rounds that know nothing of each other.
    pub fn independent(&self) -> Distribution {
        let nothing = || Distribution::constant(std::time::Duration::ZERO);
        let all = self.rounds.iter().cloned().reduce(|all, round| all.then(&round));
        all.unwrap_or_else(nothing).shifted(self.local)
    }

    /// This quantile if rounds are slow together, always: the sum of their quantiles. No dependence between
    /// them gives more to a mean over what is slower than a quantile, so it is what to plan with where calls
    /// are correlated.
    pub fn comonotone_quantile(&self, quantile: f64) -> std::time::Duration {
        let rounds: f64 = self.rounds.iter().map(|round| round.quantile(quantile).as_nanos() as f64).sum();
        std::time::Duration::from_nanos((rounds + self.local).max(0.0) as u64)
    }
}

impl Model {
    /// The latency of what an outline says, in one interval.
    pub(super) fn latency(&self, interval: &Interval, outline: &Outline, executor: Executor) -> Latency {
        let mut latency = Latency { rounds: vec![], local: self.local.of(outline), beyond: false };
        for round in &outline.rounds {
            let parts = round.iter().map(|shape| self.part(interval, shape, executor));
            let parts: Vec<(Distribution, bool)> = parts.collect();
            latency.beyond |= parts.iter().any(|(_, beyond)| *beyond);
            let whole = parts.into_iter().map(|(part, _)| part).reduce(|one, other| match executor {
                Executor::Parallel if self.mixed_round == MixedRound::Parallel => one.maximum(&other),
                _ => one.then(&other),
            });
            latency.rounds.extend(whole);
        }
        latency
    }

    /// Requests of one shape: one call of the store, or one after the other.
    fn part(&self, interval: &Interval, shape: &Shape, executor: Executor) -> (Distribution, bool) {
        match executor {
            Executor::Parallel => self.of_shape(interval, shape),
            Executor::Simple | Executor::Lazy => {
                let (one, beyond) = self.of_shape(interval, &Shape { requests: 1, ..*shape });
                (one.repeated(shape.requests), beyond)
            }
        }
    }
}

impl Local {
    /// What is ours of a call. Rounds have in them what it takes to read as many values as our own tables
    /// have.
    fn of(&self, outline: &Outline) -> f64 {
        let tuples: u64 = outline.rounds.iter().flatten().map(|shape| shape.requests * shape.tuples).sum();
        let values = outline.values as f64 - (tuples * COLUMNS as u64) as f64;
        let work = outline.work.iter().map(|work| {
            let cost = self.operators.iter().find(|(operator, _)| *operator == work.operator);
            cost.map_or(0.0, |(_, cost)| work.expressions as f64 * (cost.fixed + cost.row * work.rows as f64))
        });
        self.call + self.value * values + work.sum::<f64>()
    }
}
