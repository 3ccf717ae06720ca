//! Sums of floats from which values can be taken out again.

use super::total::Total;
use serde::{Deserialize, Serialize};

/// Where a sum of floats is cut: what it is in units of this is counted apart, so that the rest cannot
/// overflow.
/// It is 2^1022; floats end before 2^1024, so none is four units.
const UNIT: f64 = f64::from_bits((1023 + 1022) << 52);

/// A sum of floats in twice the precision, so that taking values out again leaves no residue that shows; with
/// the values that are not finite counted apart, so that an infinity can leave again; and with the whole
/// [`UNIT`]s in it counted apart, so that it cannot become infinite on the way.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct FloatSum {
    /// Less than a unit.
    high: f64,
    /// What rounding has taken from `high`.
    low: f64,
    units: i32,
    /// How many values are NaN; the next two count those that are infinite.
    nan: i32,
    positive: i32,
    negative: i32,
}

impl FloatSum {
    /// Adds what is less than a unit.
    /// The error of the rounded sum is found exactly (Knuth's two-sum) and added up in `low`.
    #[inline(always)]
    fn plus(&mut self, value: f64) {
        let sum = self.high + value;
        let shadow = sum - self.high;
        self.low += (self.high - (sum - shadow)) + (value - shadow);
        self.high = sum;
        if sum.abs() >= UNIT {
            self.carry();
        }
    }

    #[cold]
    fn carry(&mut self) {
        let unit = UNIT.copysign(self.high);
        self.high -= unit;
        self.units += if unit > 0.0 { 1 } else { -1 };
    }

    /// Adds a value, `by` being 1, or takes it out, `by` being -1.
    #[inline(always)]
    fn count(&mut self, value: f64, by: i32) {
        match value.abs() < UNIT {
            true => self.plus(if by > 0 { value } else { -value }),
            false => self.count_large(value, by),
        }
    }

    #[cold]
    fn count_large(&mut self, value: f64, by: i32) {
        if value.is_nan() {
            self.nan += by;
        } else if value == f64::INFINITY {
            self.positive += by;
        } else if value == f64::NEG_INFINITY {
            self.negative += by;
        } else {
            // At most four units, so both numbers are exact.
            let units = (value / UNIT).trunc();
            self.units += by * units as i32;
            self.plus(f64::from(by) * (value - units * UNIT));
        }
    }

    /// The sum.
    pub fn value(self) -> f64 {
        match (self.nan > 0, self.positive > 0, self.negative > 0) {
            (true, _, _) | (_, true, true) => f64::NAN,
            (_, true, _) => f64::INFINITY,
            (_, _, true) => f64::NEG_INFINITY,
            _ if self.units == 0 => self.high + self.low,
            // Made smaller it cannot become infinite before it is whole.
            _ => (f64::from(self.units) + (self.high / UNIT + self.low / UNIT)) * UNIT,
        }
    }
}

impl Total for FloatSum {
    type Value = f64;
    #[inline(always)]
    fn add(&mut self, value: &f64) {
        self.count(*value, 1);
    }
    fn remove(&mut self, value: &f64) {
        self.count(*value, -1);
    }
    fn merge(&mut self, other: &Self) {
        self.plus(other.high);
        self.low += other.low;
        self.units += other.units;
        self.nan += other.nan;
        self.positive += other.positive;
        self.negative += other.negative;
    }
    fn unmerge(&mut self, other: &Self) {
        self.plus(-other.high);
        self.low -= other.low;
        self.units -= other.units;
        self.nan -= other.nan;
        self.positive -= other.positive;
        self.negative -= other.negative;
    }
}
