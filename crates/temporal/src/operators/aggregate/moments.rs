//! Variance and standard deviation: from the sum of the values and that of their squares, both exact.
//!
//! Invariant: `count · Σx² - (Σx)²` is computed without rounding, so nothing cancels, it is never negative,
//! and the order in which values came and went does not show.

use super::carried::Carried;
use super::exact_sum::ExactSum;
use super::scaled::Scaled;
use super::squares::{Binary, ExactSquares, Integer, Number};
use super::sums::Finish;
use super::total::Total;
use arrow::datatypes::i256;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::marker::PhantomData;

/// Sums from which a variance follows.
pub(super) trait Moments: Total {
    /// `count · Σx² - (Σx)²`, of so many values; NaN if one of them is not finite.
    fn spread(&self, count: i64) -> Scaled;
}

/// Those of integers. A variance does not change if all values move by the same distance, so integers without
/// a sign are moved to the middle of their type first.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct IntegerMoments<V: Integer> {
    sum: i128,
    squares: Carried<i128>,
    of: PhantomData<V>,
}

impl<V: Integer> Total for IntegerMoments<V> {
    type Value = V;
    fn add(&mut self, value: &V) {
        let value = i128::from(value.centred());
        self.sum += value;
        self.squares.plus(value * value);
    }
    fn remove(&mut self, value: &V) {
        let value = i128::from(value.centred());
        self.sum -= value;
        self.squares.minus(value * value);
    }
    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.squares.plus_sum(&other.squares);
    }
    fn unmerge(&mut self, other: &Self) {
        self.sum -= other.sum;
        self.squares.minus_sum(&other.squares);
    }
}

impl<V: Integer> Moments for IntegerMoments<V> {
    /// Of fewer than 2^63 values, so neither product needs more than 252 bits.
    fn spread(&self, count: i64) -> Scaled {
        let sum = i256::from_i128(self.sum);
        let squares = self.squares.exact().wrapping_mul(i256::from_i128(count.into()));
        let (low, high) = squares.wrapping_sub(sum.wrapping_mul(sum)).to_parts();
        Scaled::new(high as f64 * 2_f64.powi(128) + low as f64, 0)
    }
}

/// Those of floats, or of decimals in units of their last digit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct ExactMoments<V: Binary> {
    /// The sum of the finite values.
    sum: ExactSum,
    squares: ExactSquares<V>,
}

impl<V: Binary> ExactMoments<V> {
    fn change(&mut self, number: Number, leaves: bool) {
        if let Number::Finite { negative, magnitude, exponent } = number {
            self.sum.add(negative != leaves, magnitude, exponent);
        }
        self.squares.change(number, leaves);
    }
}

impl<V: Binary> Total for ExactMoments<V> {
    type Value = V;
    fn add(&mut self, value: &V) {
        self.change(value.number(), false);
    }
    fn remove(&mut self, value: &V) {
        self.change(value.number(), true);
    }
    fn merge(&mut self, other: &Self) {
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
    }
    fn unmerge(&mut self, other: &Self) {
        self.sum.unmerge(&other.sum);
        self.squares.unmerge(&other.squares);
    }
}

impl<V: Binary> Moments for ExactMoments<V> {
    fn spread(&self, count: i64) -> Scaled {
        let Some(squares) = self.squares.finite() else { return Scaled::new(f64::NAN, 0) };
        let mut spread = squares.times(count.unsigned_abs());
        spread.unmerge(&self.sum.squared());
        spread.scaled()
    }
}

/// The variance, or its root. Null if there are too few values for it: none, or but one of a sample.
#[derive(Debug)]
pub(super) struct Dispersion {
    /// Of all there is, and not of a sample of it.
    pub population: bool,
    /// The standard deviation.
    pub root: bool,
    /// So many units of a value make 1.
    pub units: f64,
}

impl<T: Moments> Finish<T> for Dispersion {
    type Value = f64;
    fn least(&self) -> i64 {
        if self.population { 1 } else { 2 }
    }
    fn finish(&self, total: &T, count: i64) -> f64 {
        let freedom = if self.population { count } else { count - 1 };
        let divisor = i128::from(count) * i128::from(freedom);
        let variance = total.spread(count).divided_by(divisor as f64);
        match self.root {
            true => variance.root().divided_by(self.units).value(),
            false => variance.divided_by(self.units).divided_by(self.units).value(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIANCE: Dispersion = Dispersion { population: false, root: false, units: 1.0 };
    const DEVIATION: Dispersion = Dispersion { population: true, root: true, units: 1.0 };

    fn of<T: Moments>(values: &[T::Value]) -> (T, i64) {
        let mut total = T::default();
        values.iter().for_each(|value| total.add(value));
        (total, values.len() as i64)
    }

    #[test]
    fn nothing_cancels() {
        for offset in [0.0, 1e9, 4503599627370496.0] {
            let (floats, count) =
                of::<ExactMoments<f64>>(&[offset + 4.0, offset + 7.0, offset + 13.0, offset + 16.0]);
            assert_eq!(VARIANCE.finish(&floats, count), 30.0);
        }
        let (ints, count) = of::<IntegerMoments<i64>>(&[i64::MAX, i64::MAX - 1, i64::MAX - 2]);
        assert_eq!(VARIANCE.finish(&ints, count), 1.0);
        let (words, count) = of::<IntegerMoments<u64>>(&[u64::MAX, 0]);
        assert_eq!(DEVIATION.finish(&words, count), u64::MAX as f64 / 2.0);
        let (decimals, count) = of::<ExactMoments<i128>>(&[i128::MAX - 10, i128::MAX - 6]);
        assert_eq!(Dispersion { units: 10.0, ..DEVIATION }.finish(&decimals, count), 0.2);
    }

    #[test]
    fn neither_size_nor_what_has_left_shows() {
        let max = f64::MAX;
        let (mut floats, _) = of::<ExactMoments<f64>>(&[max, -max, 0.1, f64::NAN, f64::INFINITY, 0.1]);
        assert!(VARIANCE.finish(&floats, 6).is_nan());
        [f64::NAN, f64::INFINITY].iter().for_each(|value| floats.remove(value));
        assert_eq!(VARIANCE.finish(&floats, 4), f64::INFINITY);
        let deviation = DEVIATION.finish(&floats, 4);
        assert!((deviation / (max / 2.0_f64.sqrt()) - 1.0).abs() < 1e-15, "{deviation}");
        [max, -max].iter().for_each(|value| floats.remove(value));
        assert_eq!(VARIANCE.finish(&floats, 2), 0.0);
        let tiny = f64::from_bits(3);
        let (mut small, _) = of::<ExactMoments<f64>>(&[tiny, -tiny]);
        assert_eq!(DEVIATION.finish(&small, 2), tiny);
        small.unmerge(&of::<ExactMoments<f64>>(&[tiny]).0);
        assert_eq!(DEVIATION.finish(&small, 1), 0.0);
    }
}
