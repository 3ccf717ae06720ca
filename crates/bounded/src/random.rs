//! Pseudorandom numbers, the same for the same seed: SplitMix64 (Steele, Lea, Flood, *Fast Splittable
//! Pseudorandom Number Generators*, OOPSLA 2014). They are not for secrets.

use std::sync::atomic::{AtomicU64, Ordering};

/// The step of the sequence: the golden ratio in 64 bits.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A sequence; it can be drawn from by many threads.
#[derive(Debug)]
pub(crate) struct Random(AtomicU64);

impl Random {
    /// A sequence from a seed.
    pub fn new(seed: u64) -> Random {
        Random(AtomicU64::new(seed))
    }

    /// 64 bits.
    pub fn bits(&self) -> u64 {
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Between 0 and 1, never 0.
    pub fn unit(&self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Below a number.
    pub fn below(&self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Of the normal distribution with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts things into a random order (Fisher and Yates).
    pub fn shuffle<T>(&self, things: &mut [T]) {
        for at in (1..things.len()).rev() {
            things.swap(at, self.below(at + 1));
        }
    }
}
