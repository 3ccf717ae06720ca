//! Sums of squares: of integers in a word that counts how often it overflowed, of floats and decimals without
//! rounding.
//!
//! Invariant: a sum is a function of the multiset of the values in it. What is not a number, or infinite, is
//! counted apart, so that it can leave again.

use super::carried::Carried;
use super::exact_sum::ExactSum;
use super::scaled::Scaled;
use super::sums::{Divided, Summed};
use super::total::Total;
use crate::values::Value;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::marker::PhantomData;

/// An integer, signed or not.
pub(super) trait Integer: Value + Copy + TryFrom<u128> + Default {
    /// Its size.
    fn magnitude(self) -> u64;
    /// Its distance from the middle of its type: all have the same distance from what they were.
    fn centred(self) -> i64;
}

impl Integer for i64 {
    fn magnitude(self) -> u64 {
        self.unsigned_abs()
    }
    fn centred(self) -> i64 {
        self
    }
}

impl Integer for u64 {
    fn magnitude(self) -> u64 {
        self
    }
    fn centred(self) -> i64 {
        (self ^ 1 << 63) as i64
    }
}

/// The sum of the squares of integers.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct IntegerSquares<V: Integer> {
    sum: Carried<u128>,
    of: PhantomData<V>,
}

fn square_of<V: Integer>(value: &V) -> u128 {
    let magnitude = u128::from(value.magnitude());
    magnitude * magnitude
}

impl<V: Integer> Total for IntegerSquares<V> {
    type Value = V;
    fn add(&mut self, value: &V) {
        self.sum.plus(square_of(value));
    }
    fn remove(&mut self, value: &V) {
        self.sum.minus(square_of(value));
    }
    fn merge(&mut self, other: &Self) {
        self.sum.plus_sum(&other.sum);
    }
    fn unmerge(&mut self, other: &Self) {
        self.sum.minus_sum(&other.sum);
    }
    fn fits(&self) -> bool {
        self.sum.fits_word() && V::try_from(self.sum.low).is_ok()
    }
}

impl<V: Integer> Summed for IntegerSquares<V> {
    type Sum = V;
    fn sum(&self) -> V {
        // It is asked for only where it fits.
        V::try_from(self.sum.low).unwrap_or_default()
    }
}

impl<V: Integer> Divided for IntegerSquares<V> {
    fn divided_by(&self, by: f64) -> f64 {
        self.sum.value() / by
    }
}

/// A value as a binary number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    /// `magnitude · 2^exponent`, or less zero by as much.
    Finite {
        negative: bool,
        magnitude: u128,
        exponent: i32,
    },
    Infinite,
    NaN,
}

/// A value that is a binary number.
pub(super) trait Binary: Value + Default {
    fn number(&self) -> Number;
}

impl Binary for f64 {
    fn number(&self) -> Number {
        let bits = self.to_bits();
        let fraction = u128::from(bits & ((1 << 52) - 1));
        let (negative, stored) = (self.is_sign_negative(), (bits >> 52 & 0x7ff) as i32);
        match stored {
            0x7ff if fraction == 0 => Number::Infinite,
            0x7ff => Number::NaN,
            0 => Number::Finite { negative, magnitude: fraction, exponent: -1074 },
            _ => Number::Finite { negative, magnitude: fraction | 1 << 52, exponent: stored - 1075 },
        }
    }
}

impl Binary for i128 {
    fn number(&self) -> Number {
        Number::Finite { negative: *self < 0, magnitude: self.unsigned_abs(), exponent: 0 }
    }
}

/// The sum of the squares of floats, or of decimals in units of their last digit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct ExactSquares<V: Binary> {
    sum: ExactSum,
    /// How many values are NaN, and how many infinite.
    nan: i64,
    infinite: i64,
    of: PhantomData<V>,
}

impl<V: Binary> ExactSquares<V> {
    pub fn change(&mut self, number: Number, leaves: bool) {
        let by = if leaves { -1 } else { 1 };
        match number {
            Number::Finite { magnitude, exponent, .. } => self.sum.add_square(leaves, magnitude, exponent),
            Number::Infinite => self.infinite += by,
            Number::NaN => self.nan += by,
        }
    }

    /// The sum, if all values are finite.
    pub fn finite(&self) -> Option<&ExactSum> {
        (self.nan == 0 && self.infinite == 0).then_some(&self.sum)
    }
}

impl<V: Binary> Total for ExactSquares<V> {
    type Value = V;
    fn add(&mut self, value: &V) {
        self.change(value.number(), false);
    }
    fn remove(&mut self, value: &V) {
        self.change(value.number(), true);
    }
    fn merge(&mut self, other: &Self) {
        self.sum.merge(&other.sum);
        self.nan += other.nan;
        self.infinite += other.infinite;
    }
    fn unmerge(&mut self, other: &Self) {
        self.sum.unmerge(&other.sum);
        self.nan -= other.nan;
        self.infinite -= other.infinite;
    }
}

impl<V: Binary> Divided for ExactSquares<V> {
    fn divided_by(&self, by: f64) -> f64 {
        let sum = match (self.nan > 0, self.infinite > 0) {
            (true, _) => Scaled::new(f64::NAN, 0),
            (_, true) => Scaled::new(f64::INFINITY, 0),
            _ => self.sum.scaled(),
        };
        sum.divided_by(by).value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_binary_numbers() {
        let value = |number| match number {
            Number::Finite { negative, magnitude, exponent } => {
                Scaled::new(if negative { -(magnitude as f64) } else { magnitude as f64 }, exponent.into())
                    .value()
            }
            Number::Infinite => f64::INFINITY,
            Number::NaN => f64::NAN,
        };
        for float in [0.0, -0.0, 1.0, -0.1, f64::MAX, f64::MIN_POSITIVE, 5e-324, -1e-310, f64::INFINITY] {
            assert_eq!(value(float.number()).to_bits(), float.to_bits(), "{float}");
        }
        assert_eq!(f64::NAN.number(), Number::NaN);
        assert_eq!(f64::NEG_INFINITY.number(), Number::Infinite);
    }

    #[test]
    fn squares_that_do_not_fit_leave_no_trace() {
        let mut squares = IntegerSquares::<u64>::default();
        squares.add(&3);
        (0..3).for_each(|_| squares.add(&u64::MAX));
        assert!(!squares.fits());
        assert_eq!(squares.divided_by(3.0), (u64::MAX as f64) * (u64::MAX as f64));
        (0..3).for_each(|_| squares.remove(&u64::MAX));
        assert_eq!((squares.fits(), squares.sum()), (true, 9));
        let mut signed = IntegerSquares::<i64>::default();
        signed.add(&i64::MIN);
        assert!(!signed.fits());
        signed.remove(&i64::MIN);
        signed.add(&-3_037_000_499);
        assert_eq!((signed.fits(), signed.sum()), (true, 3_037_000_499 * 3_037_000_499));
    }
}
