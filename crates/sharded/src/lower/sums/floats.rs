//! Sums and averages of floats in a frame that rows leave.
//!
//! Invariants: a sum has twice the digits of its values, so that what leaves takes nothing else along; values that are not
//! finite are counted, and leave like all others; very large ones are summed up as a part of themselves, of which no sum is
//! infinite.

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

/// From here on a value is very large.
const LARGE: f64 = f64::from_bits(((1023 + 900) as u64) << 52);
/// The part of it that is summed up.
const PART: f64 = f64::from_bits(((1023 - 100) as u64) << 52);

/// A number in two, the second of which is what the first cannot hold.
#[derive(Debug, Default)]
struct Twice {
    high: f64,
    low: f64,
}

impl Twice {
    fn plus(&mut self, value: f64) {
        let sum = self.high + value;
        let shadow = sum - self.high;
        self.low += (self.high - (sum - shadow)) + (value - shadow);
        self.high = sum;
    }

    fn value(&self) -> f64 {
        self.high + self.low
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Floats {
    average: bool,
    rest: Twice,
    large: Twice,
    /// How many there are: of all, of very large ones, of those that are no number, of either infinity.
    count: i64,
    larges: i64,
    nans: i64,
    above: i64,
    below: i64,
}

impl Floats {
    pub fn new(average: bool) -> Floats {
        Floats { average, ..Floats::default() }
    }

    fn change(&mut self, values: &ArrayRef, by: i64) {
        for value in values.as_primitive::<Float64Type>().iter().flatten() {
            self.count += by;
            let signed = if by > 0 { value } else { -value };
            match value {
                value if value.is_nan() => self.nans += by,
                f64::INFINITY => self.above += by,
                f64::NEG_INFINITY => self.below += by,
                value if value.abs() < LARGE => self.rest.plus(signed),
                _ => {
                    self.larges += by;
                    self.large.plus(signed * PART);
                }
            }
        }
        if self.larges == 0 {
            self.large = Twice::default();
        }
    }

    fn sum(&self) -> f64 {
        match (self.nans > 0, self.above > 0, self.below > 0) {
            (true, _, _) | (_, true, true) => f64::NAN,
            (_, true, _) => f64::INFINITY,
            (_, _, true) => f64::NEG_INFINITY,
            _ if self.larges == 0 => self.rest.value(),
            _ => (self.large.value() + self.rest.value() * PART) / PART,
        }
    }
}

impl Accumulator for Floats {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], -1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let of = if self.average { self.count as f64 } else { 1.0 };
        Ok(ScalarValue::Float64((self.count > 0).then(|| self.sum() / of)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("the sum of a frame is not merged")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("the sum of a frame is not merged")
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Float64Array;
    use std::sync::Arc;

    /// The sums of frames of so many rows.
    fn sums(values: &[f64], rows: usize) -> Vec<f64> {
        let one = |value: f64| [Arc::new(Float64Array::from(vec![value])) as ArrayRef];
        let mut frame = Floats::new(false);
        let sum = |(at, value): (usize, &f64)| {
            frame.update_batch(&one(*value)).unwrap();
            if at >= rows {
                frame.retract_batch(&one(values[at - rows])).unwrap();
            }
            match frame.evaluate().unwrap() {
                ScalarValue::Float64(Some(sum)) => sum,
                other => panic!("{other:?}"),
            }
        };
        values.iter().enumerate().map(sum).collect()
    }

    #[test]
    fn infinities_leave_again() {
        let inf = f64::INFINITY;
        assert_eq!(sums(&[1.0, inf, 2.0, 3.0], 2), [1.0, inf, inf, 5.0]);
        let all = sums(&[inf, -inf, 2.0, f64::NAN, 3.0, 4.0], 2);
        assert!(all[1].is_nan() && all[3].is_nan() && all[4].is_nan());
        assert_eq!((all[0], all[2], all[5]), (inf, -inf, 7.0));
    }

    #[test]
    fn an_overflow_leaves_again() {
        assert_eq!(sums(&[1e308, 1e308, 1.0, 2.0], 2), [1e308, f64::INFINITY, 1e308, 3.0]);
        assert_eq!(sums(&[1e308, 1e308, -1e308, 0.5, 0.25], 3)[2..], [1e308, 0.5, -1e308]);
        assert_eq!(sums(&[1e300, 1.0, 1.0, 1.0], 2), [1e300, 1e300, 2.0, 2.0]);
    }
}
