//! Addition, subtraction and multiplication of integers that fail on overflow.
//!
//! A [`Formula`] of such operations is computed block by block without checks, if no result can be too large.
//! Otherwise the checked kernels of the library compute the batch, and report the values that are too large.

use super::formula::{BLOCK, Formula, Integer, Numbers};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::kernels::numeric::{add, mul, sub};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

/// Whether operations on these types are computed here.
pub(super) fn is_supported((left, right): &(DataType, DataType)) -> bool {
    left.is_integer() && left == right
}

/// The result of a formula over integers of one type.
///
/// # Errors
/// `ArrowError` if a result is too large.
pub(super) fn compute(formula: &Formula, arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    let Some(first) = arguments.first() else { return internal_err!("a formula has arguments") };
    let unchecked = match first.data_type() {
        DataType::Int8 => unchecked::<Int8Type>(formula, arguments)?,
        DataType::Int16 => unchecked::<Int16Type>(formula, arguments)?,
        DataType::Int32 => unchecked::<Int32Type>(formula, arguments)?,
        DataType::Int64 => unchecked::<Int64Type>(formula, arguments)?,
        DataType::UInt8 => unchecked::<UInt8Type>(formula, arguments)?,
        DataType::UInt16 => unchecked::<UInt16Type>(formula, arguments)?,
        DataType::UInt32 => unchecked::<UInt32Type>(formula, arguments)?,
        DataType::UInt64 => unchecked::<UInt64Type>(formula, arguments)?,
        _ => None,
    };
    unchecked.map_or_else(|| checked(formula, arguments), |array| Ok(ColumnarValue::Array(array)))
}

/// Computes a formula with the kernels of the library.
fn checked(formula: &Formula, arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    match formula {
        Formula::Argument(number) => Ok(arguments[*number].clone()),
        Formula::Operation(op, left, right) => {
            let (left, right) = (checked(left, arguments)?, checked(right, arguments)?);
            match op {
                Operator::Plus => apply(&left, &right, add),
                Operator::Minus => apply(&left, &right, sub),
                _ => apply(&left, &right, mul),
            }
        }
    }
}

/// Computes a formula without checks; none if a result might be too large.
fn unchecked<P>(formula: &Formula, arguments: &[ColumnarValue]) -> Result<Option<ArrayRef>>
where
    P: ArrowPrimitiveType<Native: Integer>,
{
    let (mut numbers, mut nulls, mut rows) = (Vec::new(), None, None);
    for argument in arguments {
        match argument {
            ColumnarValue::Array(array) => {
                nulls = NullBuffer::union(nulls.as_ref(), array.nulls());
                rows = Some(array.len());
                numbers.push(Numbers::Column(array.as_primitive::<P>().values().as_ref()));
            }
            ColumnarValue::Scalar(value) if !value.is_null() => {
                numbers.push(Numbers::Same(value.to_array()?.as_primitive::<P>().value(0)));
            }
            ColumnarValue::Scalar(_) => return Ok(None),
        }
    }
    let Some(rows) = rows else { return Ok(None) };
    let mut result = Vec::with_capacity(rows);
    let mut memory = formula.memory();
    let most = BLOCK / size_of::<P::Native>();
    for first in (0..rows).step_by(most) {
        let block = first..rows.min(first + most);
        match formula.compute(&numbers, block.clone(), &mut memory) {
            Some(Numbers::Column(values)) => result.extend_from_slice(values),
            Some(Numbers::Same(value)) => result.extend(block.map(|_| value)),
            None => return Ok(None),
        }
    }
    Ok(Some(Arc::new(PrimitiveArray::<P>::new(result.into(), nulls))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, UInt8Array};
    use datafusion::common::ScalarValue;

    /// `(#0 * #1) - (#0 + #2)`
    fn formula() -> Formula {
        let argument = Formula::Argument;
        let product = Formula::of(Operator::Multiply, argument(0), argument(1));
        Formula::of(Operator::Minus, product, Formula::of(Operator::Plus, argument(0), argument(2)))
    }

    fn column(values: impl IntoIterator<Item = Option<i64>>) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(Int64Array::from_iter(values)))
    }

    fn computed(arguments: &[ColumnarValue]) -> Result<Vec<Option<i64>>> {
        let result = compute(&formula(), arguments)?.into_array(1)?;
        Ok(result.as_primitive::<Int64Type>().iter().collect())
    }

    #[test]
    fn a_formula_over_many_blocks() {
        let rows = 3 * BLOCK as i64 + 5;
        let left = column((0..rows).map(|i| (i % 7 != 0).then_some(i - 1000)));
        let right = column((0..rows).map(|i| (i % 5 != 0).then_some(-i)));
        let four = ColumnarValue::Scalar(ScalarValue::Int64(Some(4)));
        let wanted =
            (0..rows).map(|i| (i % 7 != 0 && i % 5 != 0).then(|| (i - 1000) * -i - ((i - 1000) + 4)));
        assert_eq!(computed(&[left, right, four]).unwrap(), wanted.collect::<Vec<_>>());
    }

    #[test]
    fn numbers_at_the_limits_are_computed_with_checks() {
        let some = |value| column([Some(1), Some(value)]);
        let zero = ColumnarValue::Scalar(ScalarValue::Int64(Some(0)));
        let one = ColumnarValue::Scalar(ScalarValue::Int64(Some(1)));
        assert_eq!(computed(&[some(i64::MAX), one.clone(), zero]).unwrap(), [Some(0), Some(0)]);
        let error = computed(&[some(i64::MAX), one.clone(), one]).unwrap_err().to_string();
        assert!(error.contains("Overflow") && error.contains("9223372036854775807"), "{error}");
    }

    #[test]
    fn what_has_no_sign_does_not_fall_below_zero() {
        let bytes = |values: Vec<u8>| ColumnarValue::Array(Arc::new(UInt8Array::from(values)));
        let less = Formula::of(Operator::Minus, Formula::Argument(0), Formula::Argument(1));
        let result = compute(&less, &[bytes(vec![5, 255]), bytes(vec![3, 255])]).unwrap();
        assert_eq!(result.into_array(2).unwrap().as_ref(), &UInt8Array::from(vec![2, 0]));
        assert!(compute(&less, &[bytes(vec![5]), bytes(vec![6])]).is_err());
    }
}
