//! Sums of whole numbers that know whether they fit their type.
//!
//! Invariant: the sum is `low + carry · 2^bits`, in whatever order numbers came and went: one that was too
//! large for a while is right again afterwards.

use super::total::Total;
use crate::carry::Carry;
use crate::values::Value;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::i256;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What a sum that does not fit its type is answered with.
pub(super) const TOO_LARGE: &str = "a sum is too large for its type: cast what is summed up to a larger one, as to \
                                    decimal(38, 0) or float64";

/// The largest number of 38 digits, which a decimal has at most.
const MOST: u128 = 10_u128.pow(38) - 1;

/// A sum, and how often it went round its type.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Carried<W> {
    /// The sum modulo 2^bits.
    pub low: W,
    /// How often it overflowed, less how often it underflowed.
    carry: i64,
}

impl<W: Carry> Carried<W> {
    #[inline(always)]
    pub fn plus(&mut self, by: W) {
        let (low, carry) = self.low.add_carrying(by);
        self.low = low;
        self.carry += carry;
    }

    #[inline(always)]
    pub fn minus(&mut self, by: W) {
        let (low, carry) = self.low.sub_carrying(by);
        self.low = low;
        self.carry += carry;
    }

    pub fn plus_sum(&mut self, other: &Self) {
        self.plus(other.low);
        self.carry += other.carry;
    }

    pub fn minus_sum(&mut self, other: &Self) {
        self.minus(other.low);
        self.carry -= other.carry;
    }

    /// Whether the word is the sum.
    pub fn fits_word(&self) -> bool {
        self.carry == 0
    }
}

macro_rules! carried_total {
    ($word:ty, $fits:expr, $sum:expr) => {
        impl Total for Carried<$word> {
            type Value = $word;
            #[inline(always)]
            fn add(&mut self, value: &$word) {
                self.plus(*value);
            }
            fn remove(&mut self, value: &$word) {
                self.minus(*value);
            }
            fn merge(&mut self, other: &Self) {
                self.plus_sum(other);
            }
            fn unmerge(&mut self, other: &Self) {
                self.minus_sum(other);
            }
            fn fits(&self) -> bool {
                self.fits_word() && $fits(self.low)
            }
            fn add_run(
                &mut self,
                column: &<$word as Value>::Column,
                rows: Range<usize>,
                selection: Option<&BooleanBuffer>,
            ) {
                self.merge(&$sum(&column[rows], selection));
            }
        }
    };
}

carried_total!(i64, |_| true, |numbers: &[i64], selection| Carried::<i64>::of(sum_of_halves(
    numbers, selection
)));
carried_total!(u64, |_| true, |numbers: &[u64], selection| {
    let sum = sum_of_upper_and_lower(numbers, selection);
    Carried { low: sum as u64, carry: (sum >> u64::BITS) as i64 }
});
carried_total!(i128, |sum: i128| sum.unsigned_abs() <= MOST, |numbers: &[i128], selection| {
    fold(numbers, selection, Carried::default(), |mut sum: Carried<i128>, number| {
        sum.plus(number);
        sum
    })
});

impl Carried<i128> {
    /// The sum as a float, which has room for it.
    pub fn value(&self) -> f64 {
        self.low as f64 + self.carry as f64 * 2_f64.powi(128)
    }

    /// The sum itself.
    pub fn exact(&self) -> i256 {
        let sign = self.low >> (i128::BITS - 1);
        i256::from_parts(self.low as u128, sign + i128::from(self.carry))
    }
}

impl Carried<u128> {
    /// The sum as a float, which has room for it.
    pub fn value(&self) -> f64 {
        self.low as f64 + self.carry as f64 * 2_f64.powi(128)
    }
}

impl Carried<i64> {
    fn of(sum: i128) -> Carried<i64> {
        let low = sum as i64;
        Carried { low, carry: ((sum - i128::from(low)) >> i64::BITS) as i64 }
    }
}

/// Folds the selected numbers; the others count as 0.
#[inline(always)]
fn fold<N: Copy + Default, S>(
    numbers: &[N],
    selection: Option<&BooleanBuffer>,
    first: S,
    add: impl Fn(S, N) -> S,
) -> S {
    let Some(selection) = selection else {
        return numbers.iter().fold(first, |sum, number| add(sum, *number));
    };
    let bits = selection.bit_chunks();
    let (words, rest) = numbers.as_chunks::<64>();
    let sum =
        words.iter().zip(bits.iter()).fold(first, |sum, (numbers, bits)| fold_word(numbers, bits, sum, &add));
    fold_word(rest, bits.remainder_bits(), sum, &add)
}

/// The same of at most 64 numbers, of which those are selected whose bits are set. There is no branch in it:
/// the loop becomes vector instructions.
#[inline(always)]
fn fold_word<N: Copy + Default, S>(numbers: &[N], bits: u64, first: S, add: impl Fn(S, N) -> S) -> S {
    let number = |place: usize, number: N| if bits >> place & 1 == 1 { number } else { N::default() };
    numbers.iter().enumerate().fold(first, |sum, (place, of)| add(sum, number(place, *of)))
}

/// The sum, which cannot overflow: upper and lower halves are added up apart.
/// That is true of fewer than 2^31 numbers; a batch has fewer.
pub(super) fn sum_of_halves(numbers: &[i64], selection: Option<&BooleanBuffer>) -> i128 {
    let (high, low) = fold(numbers, selection, (0_i64, 0_i64), |(high, low), number| {
        (high + (number >> 32), low + (number & i64::from(u32::MAX)))
    });
    (i128::from(high) << 32) + i128::from(low)
}

/// The same of numbers without a sign.
pub(super) fn sum_of_upper_and_lower(numbers: &[u64], selection: Option<&BooleanBuffer>) -> u128 {
    let (high, low) = fold(numbers, selection, (0_u64, 0_u64), |(high, low), number| {
        (high + (number >> 32), low + (number & u64::from(u32::MAX)))
    });
    (u128::from(high) << 32) + u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_went_round_comes_back() {
        let mut sum = Carried::<i64>::default();
        [i64::MAX, i64::MAX, i64::MIN, 5].iter().for_each(|n| sum.add(n));
        assert!(!sum.fits());
        sum.remove(&i64::MAX);
        assert!(sum.fits());
        assert_eq!(sum.low, 4);
        let mut other = Carried::<i64>::default();
        other.add_run(&vec![i64::MIN, i64::MIN, i64::MAX].into(), 0..3, None);
        assert!(!other.fits());
        sum.unmerge(&other);
        assert!(!sum.fits());
        sum.merge(&other);
        assert_eq!((sum.fits(), sum.low), (true, 4));
    }

    #[test]
    fn numbers_without_a_sign() {
        let mut sum = Carried::<u64>::default();
        sum.add_run(&vec![u64::MAX, 7, 3].into(), 0..3, Some(&BooleanBuffer::from(vec![true, false, true])));
        assert!(!sum.fits());
        sum.remove(&u64::MAX);
        assert_eq!((sum.fits(), sum.low), (true, 3));
    }

    #[test]
    fn decimals_have_no_more_than_38_digits() {
        let largest = MOST as i128;
        let mut sum = Carried::<i128>::default();
        sum.add(&largest);
        assert!(sum.fits());
        sum.add(&1);
        assert!(!sum.fits());
        sum.add(&largest);
        sum.remove(&1);
        assert!((sum.value() / 2e38 - 1.0).abs() < 1e-15);
        sum.add(&largest);
        sum.add(&largest);
        assert!((sum.value() / 4e38 - 1.0).abs() < 1e-15);
        (0..3).for_each(|_| sum.remove(&largest));
        assert_eq!((sum.fits(), sum.low), (true, largest));
    }
}
