//! Percentiles: a value of the multiset, or one between two of its neighbours.

use super::bag::Readout;
use super::fraction::Fraction;
use super::multiset::Multiset;
use super::sort_keys::{Argument, SortKeys};
use crate::values::{Column, Value};

/// The first value in order whose share of the values, all before it included, is no smaller than the
/// fraction.
#[derive(Debug)]
pub(super) struct Discrete(pub Fraction);

impl Discrete {
    /// How many of `count` values are before the one that is asked for.
    fn rank(&self, count: i64) -> i64 {
        let (fraction, whole) = (self.0.value(), count as f64);
        // Rounding may miss by one: it is shares that are compared, so that 7 of 100 are 0.07.
        let mut rank = ((fraction * whole).ceil() as i64).clamp(1, count.max(1));
        while rank > 1 && (rank - 1) as f64 / whole >= fraction {
            rank -= 1;
        }
        while rank < count && (rank as f64 / whole) < fraction {
            rank += 1;
        }
        rank - 1
    }
}

impl<K: SortKeys> Readout<K> for Discrete {
    fn results<'a>(
        &self,
        keys: &K,
        states: impl ExactSizeIterator<Item = &'a Multiset<K::Key>> + Clone,
        out: &mut Column,
    ) {
        keys.append(states.map(|state| state.nth(self.rank(state.count()))), out);
    }
}

/// The value at the place `fraction · (count - 1)`, counted from 0; between two places, on the line between
/// their values.
#[derive(Debug)]
pub(super) struct Continuous(pub Fraction);

impl Continuous {
    fn value(&self, state: &Multiset<<f64 as Value>::Ordered>) -> Option<f64> {
        let place = self.0.value() * (state.count() - 1) as f64;
        let (before, part) = (place.floor() as i64, place.fract());
        let low = f64::from_ordered(state.nth(before)?);
        match part > 0.0 {
            true => state.nth(before + 1).map(|high| between(low, f64::from_ordered(high), part)),
            false => Some(low),
        }
    }
}

/// The number that is such a part of the way from `low` to `high`.
fn between(low: f64, high: f64, part: f64) -> f64 {
    match high - low {
        // Equal ones, infinite or not.
        _ if low == high => low,
        distance if distance.is_finite() => low + distance * part,
        _ => low * (1.0 - part) + high * part,
    }
}

impl Readout<Argument<f64>> for Continuous {
    fn results<'a>(
        &self,
        _keys: &Argument<f64>,
        states: impl ExactSizeIterator<Item = &'a Multiset<<f64 as Value>::Ordered>> + Clone,
        out: &mut Column,
    ) {
        out.extend_optional(states.map(|state| self.value(state)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_decide_and_not_how_a_product_rounds() {
        for count in 1..=300_i64 {
            for part in 1..=count {
                let fraction = Fraction::new(part as f64 / count as f64).expect("a fraction");
                assert_eq!(Discrete(fraction).rank(count), part - 1, "{part} of {count}");
            }
            let rank = |fraction| Discrete(Fraction::new(fraction).expect("a fraction")).rank(count);
            assert_eq!((rank(0.0), rank(-0.0), rank(1e-300), rank(1.0)), (0, 0, 0, count - 1));
        }
        assert_eq!(Discrete(Fraction::new(0.07).expect("a fraction")).rank(100), 6);
    }

    #[test]
    fn fractions_are_from_0_to_1() {
        for number in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let error = Fraction::new(number).expect_err("it is refused").strip_backtrace();
            assert!(error.contains("is not from 0 to 1"), "{error}");
        }
        assert_eq!(Fraction::new(-0.0).expect("zero"), Fraction::new(0.0).expect("zero"));
        assert_eq!(Fraction::HALF.value(), 0.5);
    }

    #[test]
    fn between_huge_and_infinite_numbers() {
        let (max, inf) = (f64::MAX, f64::INFINITY);
        assert_eq!(between(-max, max, 0.5), 0.0);
        assert_eq!(between(inf, inf, 0.5), inf);
        assert_eq!(between(-inf, 3.0, 0.25), -inf);
        assert!(between(-inf, inf, 0.25).is_nan());
        assert!(between(3.0, f64::NAN, 0.25).is_nan());
    }
}
