//! Sums of floats from which values can be taken out again.

use super::total::Total;
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Where a sum of floats is cut: what it is in units of this is counted apart, so that the rest cannot
/// overflow.
/// It is 2^1022; floats end before 2^1024, so none is four units.
const UNIT: f64 = f64::from_bits((1023 + 1022) << 52);

/// Of numbers below this, 2^960, not even all of a batch add up to a unit.
const SMALL: f64 = f64::from_bits((1023 + 960) << 52);

/// How many numbers of a run are added up together.
const BLOCK: usize = 64;

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
    #[inline(always)]
    fn plus(&mut self, value: f64) {
        let (sum, error) = two_sum(self.high, value);
        self.low += error;
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

/// The rounded sum, and what rounding has taken from it, which is found exactly (Knuth's two-sum).
#[inline(always)]
fn two_sum(one: f64, other: f64) -> (f64, f64) {
    let sum = one + other;
    let shadow = sum - one;
    (sum, (one - (sum - shadow)) + (other - shadow))
}

/// Some sums of small numbers, side by side: an addition does not wait for the one before it.
#[derive(Default)]
struct Lanes {
    high: [f64; 8],
    low: [f64; 8],
}

impl Lanes {
    #[inline(always)]
    fn add(&mut self, block: &[f64; BLOCK]) {
        for values in block.as_chunks::<8>().0 {
            for ((high, low), value) in self.high.iter_mut().zip(&mut self.low).zip(values) {
                let (sum, error) = two_sum(*high, *value);
                *high = sum;
                *low += error;
            }
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

    fn add_run(&mut self, column: &ScalarBuffer<f64>, rows: Range<usize>, selection: Option<&BooleanBuffer>) {
        let mut lanes = Lanes::default();
        let mut add =
            |block: &[f64; BLOCK]| match block.iter().fold(true, |all, value| all & (value.abs() < SMALL)) {
                true => lanes.add(block),
                false => block.iter().for_each(|value| self.add(value)),
            };
        let (blocks, rest) = column[rows].as_chunks::<BLOCK>();
        let mut last = [0.0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        match selection.map(BooleanBuffer::bit_chunks) {
            None => {
                blocks.iter().for_each(&mut add);
                add(&last);
            }
            Some(bits) => {
                blocks.iter().zip(bits.iter()).for_each(|(block, bits)| add(&selected(block, bits)));
                add(&selected(&last, bits.remainder_bits()));
            }
        }
        for (high, low) in lanes.high.into_iter().zip(lanes.low) {
            self.plus(high);
            self.low += low;
        }
    }
}

/// The numbers whose bits are set; 0 in place of the others.
fn selected(block: &[f64; BLOCK], bits: u64) -> [f64; BLOCK] {
    std::array::from_fn(|place| if bits >> place & 1 == 1 { block[place] } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of a run, and that of its values one after the other.
    fn both_ways(values: Vec<f64>, rows: Range<usize>, selection: Option<&BooleanBuffer>) -> [FloatSum; 2] {
        let (mut run, mut each) = (FloatSum::default(), FloatSum::default());
        rows.clone()
            .enumerate()
            .filter(|(place, _)| selection.is_none_or(|bits| bits.value(*place)))
            .for_each(|(_, row)| each.add(&values[row]));
        run.add_run(&values.into(), rows, selection);
        [run, each]
    }

    #[test]
    fn a_run_adds_up_to_what_its_values_do() {
        let value = |row: u64| match row % 97 {
            13 => f64::MAX / 16.0,
            14 => -f64::MAX / 32.0,
            15 => 1e300,
            row => (row as f64 - 48.0) / 7.0 * 10_f64.powi(row as i32 % 5 * 8 - 16),
        };
        let values: Vec<f64> = (0..1_000).map(value).collect();
        for rows in [0..1_000, 0..0, 3..4, 16..80, 16..79, 5..900] {
            let bits: BooleanBuffer = (0..rows.len()).map(|place| place * place % 7 < 3).collect();
            for selection in [None, Some(&bits)] {
                let [run, each] = both_ways(values.clone(), rows.clone(), selection);
                let error = (run.value() - each.value()).abs();
                assert!(error <= each.value().abs() * f64::EPSILON, "{rows:?}: {run:?}, {each:?}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_is_counted_in_a_run() {
        for (special, expected) in [(f64::INFINITY, f64::INFINITY), (f64::NEG_INFINITY, f64::NEG_INFINITY)] {
            let mut values = vec![1.5; 200];
            values[70] = special;
            let mut run = FloatSum::default();
            run.add_run(&values.clone().into(), 0..200, None);
            assert_eq!(run.value(), expected);
            run.remove(&special);
            assert_eq!(run.value(), 199.0 * 1.5);
            let others: BooleanBuffer = (0..200).map(|row| row != 70).collect();
            let [run, each] = both_ways(values, 0..200, Some(&others));
            assert_eq!((run.value(), each.value()), (298.5, 298.5));
        }
        let mut run = FloatSum::default();
        run.add_run(&vec![1.0, f64::NAN, 2.0].into(), 0..3, None);
        assert!(run.value().is_nan());
        run.remove(&f64::NAN);
        assert_eq!(run.value(), 3.0);
    }
}
