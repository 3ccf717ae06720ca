//! Histograms of latencies, and operations on distributions: sum, maximum, interpolation.
//!
//! There are 64 bins to each doubling, so microseconds and minutes have the same relative error, less than
//! 0.8 %. The last bin ends at 64 bits of nanoseconds, so nothing is cut off.
//!
//! Invariant: bins are in order, each once, and none is empty.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How many bins there are between a number and its double.
const DOUBLING: u32 = 64;
/// How many bins there are.
const BINS: usize = (64 - 7 + 2) * DOUBLING as usize;

/// The bin of a number of nanoseconds.
fn bin(nanos: u64) -> u16 {
    let shift = (64 - nanos.leading_zeros()).saturating_sub(7);
    (shift * DOUBLING) as u16 + (nanos >> shift) as u16
}

/// The nanoseconds in the middle of a bin.
fn middle(bin: u16) -> f64 {
    match (u32::from(bin) / DOUBLING).saturating_sub(1) {
        0 => f64::from(bin),
        shift => (f64::from(u32::from(bin) - shift * DOUBLING) + 0.5) * (1_u64 << shift) as f64,
    }
}

/// How many latencies were seen in each bin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    bins: Vec<(u16, u32)>,
}

impl Histogram {
    /// Counts these latencies, in nanoseconds.
    pub fn of(latencies: impl IntoIterator<Item = u64>) -> Histogram {
        let mut counts = vec![0_u32; BINS];
        latencies.into_iter().for_each(|nanos| counts[usize::from(bin(nanos))] += 1);
        let bins = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
        Histogram { bins: bins.map(|(bin, count)| (bin as u16, count)).collect() }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Their distribution; of none, that of no time at all.
    pub fn distribution(&self) -> Distribution {
        let count = self.count() as f64;
        match self.bins.is_empty() {
            true => Distribution::constant(Duration::ZERO),
            false => Distribution {
                bins: self.bins.iter().map(|(bin, n)| (*bin, f64::from(*n) / count)).collect(),
            },
        }
    }
}

/// A distribution of latencies.
///
/// ```
/// use std::time::Duration;
/// use whimbrel_bounded::predict::Histogram;
///
/// let one = Histogram::of([1_000_000, 3_000_000]).distribution();
/// let two = one.then(&one);
/// // Twice one millisecond in a quarter of the cases, twice three in another.
/// assert!(two.share_within(Duration::from_millis(5)) > 0.74);
/// assert!(two.share_within(Duration::from_millis(5)) < 0.76);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The share of each bin; they add up to one.
    bins: Vec<(u16, f64)>,
}

impl Distribution {
    /// Always the same time.
    pub fn constant(time: Duration) -> Distribution {
        Distribution { bins: vec![(bin(time.as_nanos() as u64), 1.0)] }
    }

    /// The distribution with these shares of its bins.
    fn from_shares(shares: &[f64]) -> Distribution {
        let bins = shares.iter().enumerate().filter(|(_, share)| **share > 0.0);
        Distribution { bins: bins.map(|(bin, share)| (bin as u16, *share)).collect() }
    }

    /// The time within which this share of the calls is answered.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.quantiles(&[share])[0] as u64)
    }

    /// The same of several shares in ascending order, in nanoseconds.
    fn quantiles(&self, shares: &[f64]) -> Vec<f64> {
        let mut bins = self.bins.iter();
        let (mut within, mut at) = (0.0, 0.0);
        let quantile = |share: &f64| {
            // Shares of bins add up to one but for what floating-point numbers lose.
            while within < share - 1e-9 {
                let Some((bin, mass)) = bins.next() else { break };
                within += mass;
                at = middle(*bin);
            }
            at
        };
        shares.iter().map(quantile).collect()
    }

    /// How far a quantile is from that of another, as a logarithm.
    pub(super) fn distance(&self, other: &Distribution, quantile: f64) -> f64 {
        let logarithm = |of: &Distribution| of.quantiles(&[quantile])[0].max(1.0).ln();
        (logarithm(self) - logarithm(other)).abs()
    }

    /// The share of the calls that are answered within this time.
    pub fn share_within(&self, time: Duration) -> f64 {
        let last = bin(time.as_nanos() as u64);
        self.bins.iter().take_while(|(bin, _)| *bin <= last).map(|(_, share)| share).sum()
    }

    /// One after the other, each as if the other had not been: the convolution (piql.txt §6.2).
    pub fn then(&self, other: &Distribution) -> Distribution {
        let mut shares = vec![0.0; BINS];
        let others: Vec<(f64, f64)> = other.bins.iter().map(|(bin, share)| (middle(*bin), *share)).collect();
        for (at, share) in &self.bins {
            let time = middle(*at);
            for (other, other_share) in &others {
                shares[usize::from(bin((time + other).round() as u64))] += share * other_share;
            }
        }
        Distribution::from_shares(&shares)
    }

    /// The same so many times, one after the other.
    pub fn repeated(&self, times: u64) -> Distribution {
        match times {
            0 => Distribution::constant(Duration::ZERO),
            1 => self.clone(),
            _ => {
                let half = self.repeated(times / 2);
                let both = half.then(&half);
                if times.is_multiple_of(2) { both } else { both.then(self) }
            }
        }
    }

    /// Both at the same time, each as if the other were not: the maximum (piql.txt §6.2).
    pub fn maximum(&self, other: &Distribution) -> Distribution {
        let mut shares = vec![0.0; BINS];
        let mut before = 0.0;
        for (bin, in_self, in_other) in self.side_by_side(other) {
            shares[usize::from(bin)] = (in_self * in_other - before).max(0.0);
            before = in_self * in_other;
        }
        Distribution::from_shares(&shares)
    }

    /// So many nanoseconds later; not before zero.
    pub fn shifted(&self, nanos: f64) -> Distribution {
        let mut shares = vec![0.0; BINS];
        for (at, share) in &self.bins {
            shares[usize::from(bin((middle(*at) + nanos).max(0.0).round() as u64))] += share;
        }
        Distribution::from_shares(&shares)
    }

    /// The slowest of a number of requests, from the slowest of fewer and of more of them, each with its
    /// weight and number.
    ///
    /// If requests know nothing of each other, the logarithm of the share within a time is proportional to
    /// their number; where a slow moment hits all of them, it grows more slowly, never faster. So its own
    /// logarithm is a line over that of the number, and what too few samples show of the tail of fewer
    /// requests is mended by what more of them show.
    pub fn slowest_between(
        fewer: (f64, u64, &Distribution),
        more: (f64, u64, &Distribution),
    ) -> Distribution {
        const LEAST: f64 = 1e-12;
        let logarithm = |share: f64| -share.clamp(1e-300, 1.0).ln();
        let ratio = fewer.1 as f64 / more.1 as f64;
        let mut shares = vec![0.0; BINS];
        let mut before = 0.0;
        for (bin, within_fewer, within_more) in fewer.2.side_by_side(more.2) {
            let in_more = logarithm(within_more).max(LEAST);
            let in_fewer = logarithm(within_fewer).max(ratio * in_more);
            let within = (-(fewer.0 * in_fewer.ln() + more.0 * in_more.ln()).exp()).exp();
            shares[usize::from(bin)] = (within - before).max(0.0);
            before = before.max(within);
        }
        Distribution::from_shares(&shares)
    }

    /// All bins of two distributions, with the shares of both up to there.
    fn side_by_side<'d>(&'d self, other: &'d Distribution) -> impl Iterator<Item = (u16, f64, f64)> + 'd {
        let (mut left, mut right) = (self.bins.iter().peekable(), other.bins.iter().peekable());
        let (mut in_left, mut in_right) = (0.0, 0.0);
        std::iter::from_fn(move || {
            let next = match (left.peek(), right.peek()) {
                (Some((l, _)), Some((r, _))) => *l.min(r),
                (Some((at, _)), None) | (None, Some((at, _))) => *at,
                (None, None) => return None,
            };
            in_left += left.next_if(|(at, _)| *at == next).map_or(0.0, |(_, share)| *share);
            in_right += right.next_if(|(at, _)| *at == next).map_or(0.0, |(_, share)| *share);
            Some((next, in_left, in_right))
        })
    }

    /// Between distributions that were measured: every quantile is the weighted geometric mean of theirs.
    /// Weights add up to one.
    pub fn between(corners: &[(f64, Distribution)]) -> Distribution {
        if let [(_, only)] = corners {
            return only.clone();
        }
        let shares: Vec<f64> = (0..QUANTILES).map(|at| (at as f64 + 0.5) / QUANTILES as f64).collect();
        let mut logarithms = vec![0.0; QUANTILES];
        for (weight, corner) in corners {
            let quantiles = corner.quantiles(&shares);
            for (sum, quantile) in logarithms.iter_mut().zip(quantiles) {
                *sum += weight * quantile.max(1.0).ln();
            }
        }
        let mut masses = vec![0.0; BINS];
        for logarithm in logarithms {
            masses[usize::from(bin(logarithm.exp().round() as u64))] += 1.0 / QUANTILES as f64;
        }
        Distribution::from_shares(&masses)
    }
}

/// How finely distributions are interpolated: two of these are above the 99.9th percentile.
const QUANTILES: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_is_near_what_it_counts() {
        for nanos in (0..5_000).chain((0..60).map(|power| 1_u64 << power)).chain([u64::MAX / 3, u64::MAX]) {
            let error = (middle(bin(nanos)) - nanos as f64).abs();
            assert!(error <= 0.008 * nanos as f64, "{nanos} is taken as {}", middle(bin(nanos)));
            assert!(nanos == 0 || bin(nanos) >= bin(nanos - 1));
        }
    }
}
