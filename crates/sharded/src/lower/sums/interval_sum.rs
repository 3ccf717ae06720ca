//! Sums of intervals: months, days and nanoseconds are added separately.

use super::overflow;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

/// The type of intervals.
pub(super) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// A sum of intervals; whether it fits is checked at the end.
#[derive(Debug, Default)]
pub(super) struct IntervalSum {
    months: i128,
    days: i128,
    nanoseconds: i128,
    count: u64,
}

impl IntervalSum {
    /// Adds or subtracts intervals.
    fn add(&mut self, values: &ArrayRef, sign: i128) {
        for value in values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.months += sign * i128::from(value.months);
            self.days += sign * i128::from(value.days);
            self.nanoseconds += sign * i128::from(value.nanoseconds);
        }
    }

    /// The sum, if it fits.
    fn sum(&self) -> Option<IntervalMonthDayNano> {
        let months = i32::try_from(self.months).ok()?;
        let days = i32::try_from(self.days).ok()?;
        Some(IntervalMonthDayNano::new(months, days, i64::try_from(self.nanoseconds).ok()?))
    }
}

impl Accumulator for IntervalSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count += (values[0].len() - values[0].null_count()) as u64;
        self.add(&values[0], 1);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count -= (values[0].len() - values[0].null_count()) as u64;
        self.add(&values[0], -1);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.sum();
        if sum.is_none() {
            overflow(&INTERVAL)?;
        }
        Ok(ScalarValue::IntervalMonthDayNano(sum.filter(|_| self.count > 0)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
