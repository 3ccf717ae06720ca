//! Addition, subtraction and multiplication of decimals, without an overflow check for each value.
//!
//! The kernels of the library check 128-bit operations at every step. If both operands fit into 64 bits,
//! nothing can overflow, and in nearly all batches they do. So a batch is computed as if they did, while it
//! is recorded whether they do. If not, the library computes the batch again, and reports the value that is
//! too large. The library does not look at the precision of a result, so that is checked here.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::kernels::numeric::{add_wrapping, mul_wrapping, sub_wrapping};
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

/// The largest power of ten by which two 64-bit values can be multiplied and then added in 128 bits.
const MOST_DIGITS: u8 = 18;

/// Whether operations on these types are computed here.
pub(super) fn is_supported(operands: &(DataType, DataType)) -> bool {
    matches!(operands, (DataType::Decimal128(..), DataType::Decimal128(..)))
}

/// The type of the result.
///
/// # Errors
/// `Plan` if the operation is not defined.
pub(super) fn result_type(op: Operator, left: &DataType, right: &DataType) -> Result<DataType> {
    BinaryTypeCoercer::new(left, &op, right).get_result_type()
}

/// The result of an operation on two decimals.
///
/// # Errors
/// `ArrowError` if a value is too large.
pub(super) fn compute(
    op: Operator,
    left: &ColumnarValue,
    right: &ColumnarValue,
    rows: usize,
    result: &DataType,
) -> Result<ColumnarValue> {
    let scales = (left.data_type(), right.data_type());
    if let (Some(l), Some(r)) = (Values::of(left), Values::of(right))
        && let (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) = scales
        && let DataType::Decimal128(precision, scale) = result
        && from.abs_diff(to) <= MOST_DIGITS
        && let Some(values) = compute_narrow(op, &l, &r, rows, (from, to))
    {
        let nulls = NullBuffer::union(l.nulls(), r.nulls());
        let values =
            Decimal128Array::new(values.into(), nulls).with_precision_and_scale(*precision, *scale)?;
        return Ok(ColumnarValue::Array(Arc::new(values) as ArrayRef));
    }
    check_precision(match op {
        Operator::Plus => apply(left, right, add_wrapping),
        Operator::Minus => apply(left, right, sub_wrapping),
        _ => apply(left, right, mul_wrapping),
    }?)
}

/// Refuses values with more digits than their type has.
fn check_precision(value: ColumnarValue) -> Result<ColumnarValue> {
    let values = value.to_array(1)?;
    if let DataType::Decimal128(precision, _) = values.data_type() {
        values.as_primitive::<Decimal128Type>().validate_decimal_precision(*precision)?;
    }
    Ok(value)
}

/// The result if all values fit into 64 bits.
fn compute_narrow(
    op: Operator,
    left: &Values,
    right: &Values,
    rows: usize,
    scales: (i8, i8),
) -> Option<Vec<i128>> {
    let factor = |scale: i8| 10_i64.pow(u32::from((scales.0.max(scales.1)).abs_diff(scale)));
    let (l, r) = (factor(scales.0), factor(scales.1));
    let wide = |value: i64, factor: i64| i128::from(value) * i128::from(factor);
    match (op, l == 1 && r == 1) {
        (Operator::Multiply, _) => compute_rows(left, right, rows, wide),
        (Operator::Plus, true) => compute_rows(left, right, rows, |a, b| i128::from(a) + i128::from(b)),
        (Operator::Plus, false) => compute_rows(left, right, rows, |a, b| wide(a, l) + wide(b, r)),
        (Operator::Minus, true) => compute_rows(left, right, rows, |a, b| i128::from(a) - i128::from(b)),
        (Operator::Minus, false) => compute_rows(left, right, rows, |a, b| wide(a, l) - wide(b, r)),
        _ => None,
    }
}

/// An operand.
enum Values<'a> {
    Column(&'a Decimal128Array),
    Scalar(i128),
}

impl Values<'_> {
    /// The values of an operand; none if it is null for all rows.
    fn of(value: &ColumnarValue) -> Option<Values<'_>> {
        match value {
            ColumnarValue::Array(values) => values.as_primitive_opt::<Decimal128Type>().map(Values::Column),
            ColumnarValue::Scalar(ScalarValue::Decimal128(value, _, _)) => value.map(Values::Scalar),
            ColumnarValue::Scalar(_) => None,
        }
    }

    /// The nulls of a column.
    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Values::Column(values) => values.nulls(),
            Values::Scalar(_) => None,
        }
    }
}

/// The results row by row; none if a value does not fit into 64 bits, or both operands are scalars.
fn compute_rows(
    left: &Values,
    right: &Values,
    rows: usize,
    of: impl Fn(i64, i64) -> i128,
) -> Option<Vec<i128>> {
    // Has a bit for each bit that was cut off a value.
    let mut lost = 0;
    let mut each = |left: i128, right: i128| {
        let (l, r) = (left as i64, right as i64);
        lost |= (i128::from(l) ^ left) | (i128::from(r) ^ right);
        of(l, r)
    };
    let results: Vec<i128> = match (left, right) {
        (Values::Column(l), Values::Column(r)) => {
            l.values().iter().zip(r.values()).map(|(l, r)| each(*l, *r)).collect()
        }
        (Values::Column(l), Values::Scalar(r)) => l.values().iter().map(|l| each(*l, *r)).collect(),
        (Values::Scalar(l), Values::Column(r)) => r.values().iter().map(|r| each(*l, *r)).collect(),
        (Values::Scalar(_), Values::Scalar(_)) => return None,
    };
    (lost == 0 && results.len() == rows).then_some(results)
}
