//! Sums of binary numbers without any rounding: a whole number of digits in base 2^32, of which only those
//! are kept that were needed. So a sum is a function of what is in it, whatever else came and went before.
//!
//! Invariants: the sum is that of `digits[i] · 2^(32 (first + i))`; no digit is larger than
//! `additions · 2^32`, with either sign; of additions there are at most [`MOST_ADDITIONS`], and twice as many
//! for a moment, so digits do not overflow. Carries wait until there are that many, or the sum is read.

use super::scaled::Scaled;
use serde::{Deserialize, Serialize};

/// The bits of a digit.
const BITS: i32 = 32;
/// Carries are moved on after so many additions.
const MOST_ADDITIONS: u32 = 1 << 29;
/// A digit in front stays whole as long as it is no larger than so many additions make it: a sign needs no
/// digit of its own.
const FRONT: u32 = 1 << 8;

/// See the module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ExactSum {
    first: i32,
    digits: Vec<i64>,
    additions: u32,
}

/// Leaves `0..2^32` in every digit; returns what is to be carried into the next.
fn carry_through(digits: &mut [i64]) -> i64 {
    digits.iter_mut().fold(0, |carry, digit| {
        let sum = *digit + carry;
        *digit = sum & i64::from(u32::MAX);
        sum >> BITS
    })
}

impl ExactSum {
    /// Adds `magnitude · 2^exponent`, or subtracts it.
    pub fn add(&mut self, negative: bool, magnitude: u128, exponent: i32) {
        self.add_word(negative, magnitude as u64, exponent);
        self.add_word(negative, (magnitude >> 64) as u64, exponent + 64);
    }

    /// Adds `(magnitude · 2^exponent)²`, or subtracts it.
    pub fn add_square(&mut self, negative: bool, magnitude: u128, exponent: i32) {
        let (low, high) = (magnitude & u128::from(u64::MAX), magnitude >> 64);
        self.add(negative, low * low, 2 * exponent);
        if high > 0 {
            self.add(negative, low * high, 2 * exponent + 65);
            self.add(negative, high * high, 2 * exponent + 128);
        }
    }

    fn add_word(&mut self, negative: bool, word: u64, exponent: i32) {
        if word == 0 {
            return;
        }
        let wide = u128::from(word) << exponent.rem_euclid(BITS);
        let count = (u128::BITS - wide.leading_zeros()).div_ceil(BITS as u32);
        let digits = self.room(exponent.div_euclid(BITS), count as usize);
        for (place, digit) in digits.iter_mut().enumerate() {
            let part = i64::from((wide >> (BITS as usize * place)) as u32);
            *digit += if negative { -part } else { part };
        }
        self.count(1);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &ExactSum) {
        self.add_digits(other, 1);
    }

    /// Subtracts another sum.
    pub fn unmerge(&mut self, other: &ExactSum) {
        self.add_digits(other, -1);
    }

    fn add_digits(&mut self, other: &ExactSum, sign: i64) {
        if other.digits.is_empty() {
            return;
        }
        let digits = self.room(other.first, other.digits.len());
        digits.iter_mut().zip(&other.digits).for_each(|(digit, by)| *digit += sign * by);
        self.count(other.additions);
    }

    /// The `count` digits from `place` on.
    fn room(&mut self, place: i32, count: usize) -> &mut [i64] {
        if self.digits.is_empty() {
            self.first = place;
        }
        if place < self.first {
            let missing = (self.first - place) as usize;
            self.digits.splice(..0, std::iter::repeat_n(0, missing));
            self.first = place;
        }
        let from = (place - self.first) as usize;
        self.digits.resize(self.digits.len().max(from + count), 0);
        &mut self.digits[from..from + count]
    }

    fn count(&mut self, additions: u32) {
        self.additions += additions;
        if self.additions >= MOST_ADDITIONS {
            self.carry();
        }
    }

    /// Moves carries on, so that there is room for more additions.
    fn carry(&mut self) {
        let Some((front, others)) = self.digits.split_last_mut() else { return };
        *front += carry_through(others);
        if front.unsigned_abs() > u64::from(FRONT) << BITS {
            let rest = carry_through(std::slice::from_mut(front));
            self.digits.push(rest);
        }
        self.additions = FRONT;
    }

    /// The digits of the sum without its sign: each below 2^32.
    fn absolute(&self) -> Vec<i64> {
        let mut digits = self.digits.clone();
        let mut carry = carry_through(&mut digits);
        if carry < 0 {
            digits = self.digits.iter().map(|digit| -digit).collect();
            carry = carry_through(&mut digits);
        }
        digits.push(carry);
        digits
    }

    /// The sum's square.
    pub fn squared(&self) -> ExactSum {
        let digits = self.absolute();
        let mut square = ExactSum::default();
        for (i, &a) in (0..).zip(&digits) {
            for (j, &b) in (0..).zip(&digits) {
                square.add_word(false, a as u64 * b as u64, BITS * (2 * self.first + i + j));
            }
        }
        square
    }

    /// So many times the sum, without its sign.
    pub fn times(&self, count: u64) -> ExactSum {
        let mut product = ExactSum::default();
        for (i, &digit) in (0..).zip(&self.absolute()) {
            product.add(false, digit as u128 * u128::from(count), BITS * (self.first + i));
        }
        product
    }

    /// The sum without its sign, rounded once.
    pub fn scaled(&self) -> Scaled {
        let digits = self.absolute();
        let Some(front) = digits.iter().rposition(|&digit| digit != 0) else { return Scaled::new(0.0, 0) };
        // Four digits hold all the bits of a float; of the rest it only matters whether it is zero.
        let digit = |place: usize| front.checked_sub(place).map_or(0, |at| digits[at] as u128);
        let leading = (0..4).fold(0, |number, place| number << BITS | digit(place));
        let rest = digits[..front.saturating_sub(3)].iter().any(|&digit| digit != 0);
        let exponent = i64::from(BITS) * (i64::from(self.first) + front as i64 - 3);
        Scaled::new((leading | u128::from(rest)) as f64, exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[i64]) -> ExactSum {
        let mut sum = ExactSum::default();
        numbers.iter().for_each(|n| sum.add(*n < 0, n.unsigned_abs().into(), 0));
        sum
    }

    #[test]
    fn large_numbers_leave_no_trace() {
        let mut sum = of(&[7, -3]);
        sum.add(false, 1 << 52, 900);
        sum.add(true, u128::MAX, -1100);
        sum.add(true, 1 << 52, 900);
        sum.add(false, u128::MAX, -1100);
        assert_eq!(sum.scaled().value(), 4.0);
        sum.unmerge(&of(&[9]));
        assert_eq!(sum.scaled().value(), 5.0);
        assert_eq!(sum.squared().scaled().value(), 25.0);
        assert_eq!(sum.times(u64::MAX).scaled().value(), 5.0 * u64::MAX as f64);
        sum.merge(&of(&[5]));
        assert_eq!(sum.scaled().value(), 0.0);
        assert_eq!(ExactSum::default().squared().scaled().value(), 0.0);
    }

    #[test]
    fn rounding_happens_once_and_to_the_nearest() {
        for (numbers, rest) in [(1 << 53, 1), (1 << 53, 3), ((1 << 53) + 1, 1), (i64::MAX - 1, i64::MAX)] {
            let exact = i128::from(numbers) + i128::from(rest);
            assert_eq!(of(&[numbers, rest]).scaled().value(), exact as f64);
        }
        // Just above the middle of two floats, by a bit that is far away.
        let mut sum = of(&[(1 << 53) + 1]);
        assert_eq!(sum.scaled().value(), 2_f64.powi(53));
        sum.add(false, 1, -1000);
        assert_eq!(sum.scaled().value(), 2_f64.powi(53) + 2.0);
    }

    #[test]
    fn squares_of_wide_numbers() {
        let wide = u128::MAX - 12345;
        let mut square = ExactSum::default();
        square.add_square(false, wide, -7);
        let mut sum = ExactSum::default();
        sum.add(true, wide, -7);
        square.unmerge(&sum.squared());
        assert_eq!(square.scaled().value(), 0.0);
    }

    #[test]
    fn carries_are_moved_on_in_time() {
        let mut sum = of(&[-1, 5]);
        sum.additions = MOST_ADDITIONS - 1;
        sum.add(true, u128::MAX, 0);
        assert!(sum.additions <= FRONT + 1, "{}", sum.additions);
        let len = sum.digits.len();
        (0..50).for_each(|_| sum.carry());
        assert_eq!(sum.digits.len(), len);
        sum.add(false, u128::MAX, 0);
        assert_eq!(sum.scaled().value(), 4.0);
        sum.digits = vec![i64::MIN / 4, i64::MAX / 4];
        let before = sum.scaled();
        sum.carry();
        assert_eq!(sum.scaled(), before);
        assert!(sum.digits.iter().all(|digit| digit.unsigned_abs() <= u64::from(FRONT) << BITS));
    }
}
