//! A store that is far away: every request takes a time of its own, and a round as long as its slowest
//! request.
//!
//! The times are those that were seen of stores in a data center: log-normal, and now and then one from a
//! heavy tail. Together with a [`Clock`] that is not the machine's, latencies are tried without waiting for
//! them.

use super::interface::{Capabilities, Condition, Found, Outcome, Read, Store, Write};
use crate::clock::Clock;
use crate::error::Result;
use crate::random::Random;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// How long a request takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Half of the requests take less.
    pub median: Duration,
    /// The standard deviation of its logarithm; 0 for always the same.
    pub sigma: f64,
    /// The share of requests that come from the tail, which has Pareto's distribution from twice the median
    /// on.
    pub tail: f64,
    /// How heavy the tail is: the smaller, the heavier.
    pub alpha: f64,
    /// No request takes longer.
    pub most: Duration,
    /// What each tuple of an answer adds.
    pub tuple: Duration,
}

impl Latency {
    /// Always the same.
    pub fn constant(time: Duration) -> Latency {
        Latency {
            median: time,
            sigma: 0.0,
            tail: 0.0,
            alpha: 1.5,
            most: Duration::MAX,
            tuple: Duration::ZERO,
        }
    }

    /// As of a store over a network that many share: sigma 0.35, four of a thousand requests from a tail with
    /// alpha 1.5, at most a hundred times the median.
    pub fn shared_network(median: Duration) -> Latency {
        Latency { sigma: 0.35, tail: 0.004, most: median * 100, ..Latency::constant(median) }
    }

    /// The same, so many times slower.
    pub fn slower(self, times: f64) -> Latency {
        Latency { median: self.median.mul_f64(times), ..self }
    }

    /// A latency drawn at random.
    fn draw(&self, random: &Random) -> Duration {
        let times = match self.tail > 0.0 && random.unit() <= self.tail {
            true => 2.0 * random.unit().powf(-1.0 / self.alpha),
            false if self.sigma > 0.0 => (self.sigma * random.normal()).exp(),
            false => 1.0,
        };
        let most = self.most.as_secs_f64() / self.median.as_secs_f64().max(1e-9);
        self.median.mul_f64(times.min(most))
    }
}

/// A store that is far away.
#[derive(Debug)]
pub struct Distant<S> {
    store: S,
    latency: RwLock<Latency>,
    clock: Clock,
    random: Random,
}

impl<S: Store> Distant<S> {
    /// Puts a store far away. The same seed gives the same times in the same order.
    pub fn new(store: S, latency: Latency, clock: Clock, seed: u64) -> Distant<S> {
        Distant { store, latency: RwLock::new(latency), clock, random: Random::new(seed) }
    }

    /// From now on requests take this long.
    pub fn set(&self, latency: Latency) {
        *self.latency.write().unwrap_or_else(PoisonError::into_inner) = latency;
    }

    /// The store itself.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// The latency of a round: that of its slowest request.
    fn latency(&self) -> Latency {
        *self.latency.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store> Store for Distant<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn read(&self, requests: &[Read]) -> Result<Vec<Found>> {
        let found = self.store.read(requests)?;
        let latency = self.latency();
        let slowest = found.iter().map(|found| {
            let tuples = match found {
                Found::Entries(entries) => entries.len() as u32,
                Found::Value(_) | Found::Count(_) => 1,
            };
            latency.draw(&self.random) + latency.tuple * tuples
        });
        self.clock.wait(slowest.max().unwrap_or_default());
        Ok(found)
    }

    fn commit(&self, conditions: &[Condition], writes: &[Write]) -> Result<Outcome> {
        let latency = self.latency();
        self.clock.wait(latency.draw(&self.random));
        self.store.commit(conditions, writes)
    }
}
