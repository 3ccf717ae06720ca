//! The sum of all values, of those in a frame, and of those that are different.

use super::{check_digits, too_large};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowNumericType, AsArray, PrimitiveArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;
use std::fmt;
use std::sync::Arc;

/// What comes of a sum and a number, and whether it went beyond the largest number of the type (1) or the least (-1).
#[inline(always)]
pub(super) fn plus<N: ArrowNativeTypeOp>(sum: N, by: N) -> (N, i64) {
    match sum.add_checked(by) {
        Ok(sum) => (sum, 0),
        Err(_) => (sum.add_wrapping(by), if by.is_lt(N::ZERO) { -1 } else { 1 }),
    }
}

fn minus<N: ArrowNativeTypeOp>(sum: N, by: N) -> (N, i64) {
    match sum.sub_checked(by) {
        Ok(rest) => (rest, 0),
        Err(_) => (sum.sub_wrapping(by), if by.is_lt(N::ZERO) { 1 } else { -1 }),
    }
}

/// The sum of two numbers, or their difference, and how often the size of their type is carried.
type Change<N> = fn(N, N) -> (N, i64);

/// A sum of whole numbers: it is `low`, and so often as `carry` says the size of the type.
pub(super) struct Total<T: ArrowNumericType> {
    low: T::Native,
    carry: i64,
    count: u64,
    kind: DataType,
}

impl<T: ArrowNumericType> Total<T> {
    pub fn new(kind: &DataType) -> Total<T> {
        Total { low: T::Native::ZERO, carry: 0, count: 0, kind: kind.clone() }
    }

    fn each(&mut self, values: &ArrayRef, change: Change<T::Native>) {
        let values = values.as_primitive::<T>();
        let mut by = |value: T::Native| {
            let (low, carry) = change(self.low, value);
            self.low = low;
            self.carry += carry;
        };
        match values.null_count() {
            0 => values.values().iter().for_each(|value| by(*value)),
            _ => values.iter().flatten().for_each(by),
        }
    }
}

impl<T: ArrowNumericType> fmt::Debug for Total<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Total({})", self.kind)
    }
}

impl<T: ArrowNumericType> Accumulator for Total<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count += (values[0].len() - values[0].null_count()) as u64;
        self.each(&values[0], plus);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count -= (values[0].len() - values[0].null_count()) as u64;
        self.each(&values[0], minus);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.carry != 0 {
            too_large(&self.kind)?;
        }
        let sum = (self.count > 0).then_some(self.low);
        let sums = PrimitiveArray::<T>::from_iter([sum]).with_data_type(self.kind.clone());
        let sums: ArrayRef = Arc::new(sums);
        check_digits(&sums)?;
        ScalarValue::try_from_array(&sums, 0)
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

/// The sum of different values, which DataFusion collects.
#[derive(Debug)]
pub(super) struct Distinct {
    kind: DataType,
    values: Box<dyn Accumulator>,
}

impl Distinct {
    pub fn new(kind: DataType, values: Box<dyn Accumulator>) -> Distinct {
        Distinct { kind, values }
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.values.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.values.state()?;
        let [ScalarValue::List(values)] = state.as_slice() else {
            return internal_err!("a sum of different values has a list of them, not {state:?}");
        };
        let values = cast(&values.value(0), &self.kind)?;
        let mut total = super::total(&self.kind)?;
        total.update_batch(&[values])?;
        total.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }
}
