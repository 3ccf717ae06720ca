//! Sums of integers that know whether they overflow: of all values, of a frame, and of distinct values.

use super::{check_digits, overflow};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowNumericType, AsArray, PrimitiveArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;
use std::fmt;
use std::sync::Arc;
use whimbrel_temporal::Carry;

/// A carrying addition or subtraction.
type CarryingOp<N> = fn(N, N) -> (N, i64);

/// A sum of integers: `low`, plus `carry` times the size of the type.
pub(super) struct CheckedSum<T: ArrowNumericType<Native: Carry>> {
    low: T::Native,
    carry: i64,
    count: u64,
    kind: DataType,
}

impl<T: ArrowNumericType<Native: Carry>> CheckedSum<T> {
    /// An empty sum of this type.
    pub fn new(kind: &DataType) -> CheckedSum<T> {
        CheckedSum { low: T::Native::ZERO, carry: 0, count: 0, kind: kind.clone() }
    }

    /// Adds or subtracts values.
    fn apply(&mut self, values: &ArrayRef, op: CarryingOp<T::Native>) {
        let values = values.as_primitive::<T>();
        let mut by = |value: T::Native| {
            let (low, carry) = op(self.low, value);
            self.low = low;
            self.carry += carry;
        };
        match values.null_count() {
            0 => values.values().iter().for_each(|value| by(*value)),
            _ => values.iter().flatten().for_each(by),
        }
    }
}

impl<T: ArrowNumericType<Native: Carry>> fmt::Debug for CheckedSum<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckedSum({})", self.kind)
    }
}

impl<T: ArrowNumericType<Native: Carry>> Accumulator for CheckedSum<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count += (values[0].len() - values[0].null_count()) as u64;
        self.apply(&values[0], T::Native::add_carrying);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count -= (values[0].len() - values[0].null_count()) as u64;
        self.apply(&values[0], T::Native::sub_carrying);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.carry != 0 {
            overflow(&self.kind)?;
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

/// The sum of distinct values, which DataFusion collects.
#[derive(Debug)]
pub(super) struct DistinctSum {
    kind: DataType,
    values: Box<dyn Accumulator>,
}

impl DistinctSum {
    /// The sum of the values that this accumulator collects.
    pub fn new(kind: DataType, values: Box<dyn Accumulator>) -> DistinctSum {
        DistinctSum { kind, values }
    }
}

impl Accumulator for DistinctSum {
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
            return internal_err!("a sum of distinct values has a list of them, not {state:?}");
        };
        let values = cast(&values.value(0), &self.kind)?;
        let mut sum = super::empty_sum(&self.kind)?;
        sum.update_batch(&[values])?;
        sum.evaluate()
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
