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
    /// What the engine itself takes, in nanoseconds: never negative.
    pub own: f64,
    /// What is added to the rounds for it, in nanoseconds. It can be negative: rounds have in them what it
    /// takes to read as many values as the tables of the measurement have.
    pub correction: f64,
    /// Some round is beyond what was measured.
    pub beyond: bool,
}

impl Latency {
    /// Rounds that know nothing of each other.
    pub fn independent(&self) -> Distribution {
        let nothing = || Distribution::constant(std::time::Duration::ZERO);
        let all = self.rounds.iter().cloned().reduce(|all, round| all.then(&round));
        all.unwrap_or_else(nothing).shifted(self.correction)
    }

    /// This quantile if rounds are slow together, always: the sum of their quantiles. No dependence between
    /// them gives more to a mean over what is slower than a quantile, so it is what to plan with where calls
    /// are correlated.
    pub fn comonotone_quantile(&self, quantile: f64) -> std::time::Duration {
        let rounds: f64 = self.rounds.iter().map(|round| round.quantile(quantile).as_nanos() as f64).sum();
        std::time::Duration::from_nanos((rounds + self.correction).max(0.0) as u64)
    }
}

impl Model {
    /// The latency of what an outline says, in one interval.
    pub(super) fn latency(&self, interval: &Interval, outline: &Outline, executor: Executor) -> Latency {
        let own = self.local.own(outline);
        let correction = own - self.local.within_rounds(outline);
        let mut latency = Latency { rounds: vec![], own, correction, beyond: false };
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
    /// What is ours of a call: the call itself, the values it reads and its local operators.
    fn own(&self, outline: &Outline) -> f64 {
        let work = outline.work.iter().map(|work| {
            let cost = self.operators.iter().find(|(operator, _)| *operator == work.operator);
            cost.map_or(0.0, |(_, cost)| work.expressions as f64 * (cost.fixed + cost.row * work.rows as f64))
        });
        self.call + self.value * outline.values as f64 + work.sum::<f64>()
    }

    /// What the measured rounds have in them of it.
    fn within_rounds(&self, outline: &Outline) -> f64 {
        let tuples: u64 = outline.rounds.iter().flatten().map(|shape| shape.requests * shape.tuples).sum();
        self.value * (tuples * COLUMNS as u64) as f64
    }
}
