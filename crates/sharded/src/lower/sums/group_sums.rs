//! Sums of integers for many groups, which know whether they overflow.
//!
//! Invariant: the sum of a group is its entry in `low`, plus its entry in `carries` times the size of the
//! type. Few groups ever overflow, so `carries` is a map.

use super::{check_digits, overflow};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowNumericType, AsArray, BooleanArray, BooleanBufferBuilder,
    PrimitiveArray,
};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{HashMap, Result};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use std::sync::Arc;
use whimbrel_temporal::Carry;

/// The sums of all groups; see the module.
pub(super) struct GroupSums<T: ArrowNumericType<Native: Carry>> {
    low: Vec<T::Native>,
    carries: HashMap<usize, i64>,
    /// Which groups have a value; none if all have.
    has_value: Option<BooleanBufferBuilder>,
    kind: DataType,
}

impl<T: ArrowNumericType<Native: Carry>> GroupSums<T> {
    /// No groups yet, for sums of this type.
    pub fn new(kind: &DataType) -> GroupSums<T> {
        GroupSums { low: Vec::new(), carries: HashMap::new(), has_value: None, kind: kind.clone() }
    }

    /// Adds a value to a group.
    #[inline(always)]
    fn add(&mut self, group: usize, value: T::Native) {
        let (sum, carry) = self.low[group].add_carrying(value);
        self.low[group] = sum;
        if carry != 0 {
            *self.carries.entry(group).or_default() += carry;
        }
    }

    /// Adds the values that are not null and pass the filter.
    fn add_some(
        &mut self,
        values: &PrimitiveArray<T>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_before: usize,
    ) {
        let passing = filter.map(|filter| NullBuffer::new(passing(filter)));
        let selected = NullBuffer::union(values.nulls(), passing.as_ref());
        let mut has_value = self.has_value.take().unwrap_or_else(|| {
            let mut has_value = BooleanBufferBuilder::new(self.low.len());
            has_value.append_n(groups_before, true);
            has_value
        });
        has_value.append_n(self.low.len() - has_value.len(), false);
        for (row, (&group, &value)) in groups.iter().zip(values.values()).enumerate() {
            if selected.as_ref().is_none_or(|selected| selected.is_valid(row)) {
                has_value.set_bit(group, true);
                self.add(group, value);
            }
        }
        self.has_value = Some(has_value);
    }

    /// Removes the first groups; which of these have a value.
    fn emit(&mut self, count: usize) -> Option<NullBuffer> {
        let mut has_value = self.has_value.take()?;
        let all = has_value.finish();
        let rest = all.slice(count, all.len() - count);
        let mut remaining = BooleanBufferBuilder::new(rest.len());
        remaining.append_buffer(&rest);
        self.has_value = (!rest.is_empty()).then_some(remaining);
        Some(NullBuffer::new(all.slice(0, count)))
    }
}

/// The rows that pass a filter.
fn passing(filter: &BooleanArray) -> BooleanBuffer {
    match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    }
}

impl<T: ArrowNumericType<Native: Carry>> GroupsAccumulator for GroupSums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        let groups_before = self.low.len();
        self.low.resize(count.max(groups_before), T::Native::ZERO);
        if self.has_value.is_none() && filter.is_none() && values.null_count() == 0 {
            groups.iter().zip(values.values()).for_each(|(&group, &value)| self.add(group, value));
        } else {
            self.add_some(values, groups, filter, groups_before);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.low);
        if self.carries.iter().any(|(group, carry)| *group < sums.len() && *carry != 0) {
            overflow(&self.kind)?;
        }
        let rest = std::mem::take(&mut self.carries).into_iter();
        self.carries =
            rest.filter_map(|(group, carry)| Some((group.checked_sub(sums.len())?, carry))).collect();
        let nulls = self.emit(sums.len());
        let sums = PrimitiveArray::<T>::new(sums.into(), nulls).with_data_type(self.kind.clone());
        let sums: ArrayRef = Arc::new(sums);
        check_digits(&sums)?;
        Ok(sums)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.update_batch(values, groups, None, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>().clone().with_data_type(self.kind.clone());
        let values: ArrayRef = Arc::new(values);
        Ok(vec![match filter {
            None => values,
            Some(filter) => {
                let left_out = BooleanArray::new(!&passing(filter), None);
                nullif(&values, &left_out)?
            }
        }])
    }

    fn size(&self) -> usize {
        let has_value = self.has_value.as_ref().map_or(0, |has_value| has_value.capacity() / 8);
        self.low.capacity() * size_of::<T::Native>()
            + has_value
            + self.carries.capacity() * size_of::<(usize, i64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::Int64Type;

    fn sums_of(rows: &[(usize, Option<i64>)], filter: Option<Vec<bool>>) -> GroupSums<Int64Type> {
        let mut groups = GroupSums::<Int64Type>::new(&DataType::Int64);
        let values: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>());
        let numbers: Vec<usize> = rows.iter().map(|row| row.0).collect();
        let count = numbers.iter().max().unwrap() + 1;
        groups.update_batch(&[values], &numbers, filter.map(BooleanArray::from).as_ref(), count).unwrap();
        groups
    }

    #[test]
    fn a_sum_that_comes_back_fits() {
        let mut groups = sums_of(&[(0, Some(i64::MAX)), (1, Some(1)), (0, Some(2)), (0, Some(-5))], None);
        assert_eq!(groups.evaluate(EmitTo::All).unwrap().as_ref(), &Int64Array::from(vec![i64::MAX - 3, 1]));
    }

    #[test]
    fn only_emitted_groups_have_to_fit() {
        let mut groups = sums_of(&[(0, Some(1)), (1, Some(i64::MIN)), (1, Some(-1)), (2, None)], None);
        assert_eq!(groups.evaluate(EmitTo::First(1)).unwrap().as_ref(), &Int64Array::from(vec![1]));
        let error = groups.evaluate(EmitTo::All).unwrap_err().to_string();
        assert!(error.contains("too large for int64"), "{error}");
    }

    #[test]
    fn groups_without_a_value_are_null() {
        let rows = [(0, Some(1)), (1, None), (2, Some(3)), (2, Some(4))];
        let mut groups = sums_of(&rows, Some(vec![false, true, true, true]));
        let sums = groups.evaluate(EmitTo::All).unwrap();
        assert_eq!(sums.as_ref(), &Int64Array::from(vec![None, None, Some(7)]));
    }
}
