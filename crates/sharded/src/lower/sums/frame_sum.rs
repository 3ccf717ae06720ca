//! Sums and averages of floats over sliding frames.
//!
//! Invariants: a sum has twice the precision of its values, so that a value which leaves takes nothing else
//! along. Values that are not finite are counted, so that they can leave. Very large values are scaled down,
//! so that their sum is finite.

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;

/// Values of this size and above are scaled down.
const LARGE: f64 = f64::from_bits(((1023 + 900) as u64) << 52);
/// The factor by which they are scaled.
const SCALE: f64 = f64::from_bits(((1023 - 100) as u64) << 52);

/// A sum with its rounding error (Knuth's two-sum).
#[derive(Debug, Default)]
struct CompensatedSum {
    high: f64,
    low: f64,
}

impl CompensatedSum {
    /// Adds a value.
    fn add(&mut self, value: f64) {
        let sum = self.high + value;
        let rounded = sum - self.high;
        self.low += (self.high - (sum - rounded)) + (value - rounded);
        self.high = sum;
    }

    /// The sum.
    fn value(&self) -> f64 {
        self.high + self.low
    }
}

/// A sum or an average over a frame; see the module.
#[derive(Debug, Default)]
pub(super) struct FrameSum {
    average: bool,
    /// The sum of the values that are not large.
    rest: CompensatedSum,
    /// The sum of the large values, scaled.
    large: CompensatedSum,
    /// The number of all values, and of those of each kind.
    count: i64,
    larges: i64,
    nans: i64,
    infinities: i64,
    negative_infinities: i64,
}

impl FrameSum {
    /// An empty sum, or average.
    pub fn new(average: bool) -> FrameSum {
        FrameSum { average, ..FrameSum::default() }
    }

    /// Adds values (`by` is 1) or removes them (-1).
    fn change(&mut self, values: &ArrayRef, by: i64) {
        for value in values.as_primitive::<Float64Type>().iter().flatten() {
            self.count += by;
            let signed = if by > 0 { value } else { -value };
            match value {
                value if value.is_nan() => self.nans += by,
                f64::INFINITY => self.infinities += by,
                f64::NEG_INFINITY => self.negative_infinities += by,
                value if value.abs() < LARGE => self.rest.add(signed),
                _ => {
                    self.larges += by;
                    self.large.add(signed * SCALE);
                }
            }
        }
        if self.larges == 0 {
            self.large = CompensatedSum::default();
        }
    }

    /// The sum of all values.
    fn sum(&self) -> f64 {
        match (self.nans > 0, self.infinities > 0, self.negative_infinities > 0) {
            (true, _, _) | (_, true, true) => f64::NAN,
            (_, true, _) => f64::INFINITY,
            (_, _, true) => f64::NEG_INFINITY,
            _ if self.larges == 0 => self.rest.value(),
            _ => (self.large.value() + self.rest.value() * SCALE) / SCALE,
        }
    }
}

impl Accumulator for FrameSum {
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
        let mut frame = FrameSum::new(false);
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
