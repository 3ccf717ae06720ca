//! Sums, differences and products of decimals, without a check for each of their values.
//!
//! The library's kernels multiply and add 128 bits with a check for overflow at every step. Where both values fit in
//! 64 bits nothing can overflow, and that is so in nearly all batches: a batch is computed as if it were, while it is
//! looked whether it was; if not, the library computes it again and says which value is too large.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::kernels::numeric::{add_wrapping, mul_wrapping, sub_wrapping};
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

/// The largest power of ten by which a value of 64 bits can be multiplied, and two of them added, in 128.
const MOST_DIGITS: u8 = 18;

/// Whether an operation on these types can be computed here.
pub(super) fn is_possible((left, right): &(DataType, DataType)) -> bool {
    match (left, right) {
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from.abs_diff(*to) <= MOST_DIGITS,
        _ => false,
    }
}

/// The type of the result.
pub(super) fn result_type(op: Operator, left: &DataType, right: &DataType) -> Result<DataType> {
    BinaryTypeCoercer::new(left, &op, right).get_result_type()
}

/// The result of an operation on two decimals.
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
        && let Some(values) = of_narrow(op, &l, &r, rows, (from, to))
    {
        let nulls = NullBuffer::union(l.nulls(), r.nulls());
        let values =
            Decimal128Array::new(values.into(), nulls).with_precision_and_scale(*precision, *scale)?;
        return Ok(ColumnarValue::Array(Arc::new(values) as ArrayRef));
    }
    match op {
        Operator::Plus => apply(left, right, add_wrapping),
        Operator::Minus => apply(left, right, sub_wrapping),
        _ => apply(left, right, mul_wrapping),
    }
}

/// The result where all values fit in 64 bits.
fn of_narrow(
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
        (Operator::Multiply, _) => computed(left, right, rows, wide),
        (Operator::Plus, true) => computed(left, right, rows, |a, b| i128::from(a) + i128::from(b)),
        (Operator::Plus, false) => computed(left, right, rows, |a, b| wide(a, l) + wide(b, r)),
        (Operator::Minus, true) => computed(left, right, rows, |a, b| i128::from(a) - i128::from(b)),
        (Operator::Minus, false) => computed(left, right, rows, |a, b| wide(a, l) - wide(b, r)),
        _ => None,
    }
}

/// One side of an operation.
enum Values<'a> {
    Each(&'a Decimal128Array),
    Always(i128),
}

impl Values<'_> {
    /// None: it is a null for all rows.
    fn of(value: &ColumnarValue) -> Option<Values<'_>> {
        match value {
            ColumnarValue::Array(values) => values.as_primitive_opt::<Decimal128Type>().map(Values::Each),
            ColumnarValue::Scalar(ScalarValue::Decimal128(value, _, _)) => value.map(Values::Always),
            ColumnarValue::Scalar(_) => None,
        }
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Values::Each(values) => values.nulls(),
            Values::Always(_) => None,
        }
    }
}

/// The results; none if a value does not fit in 64 bits, or there is no row by row to compute.
fn computed(left: &Values, right: &Values, rows: usize, of: impl Fn(i64, i64) -> i128) -> Option<Vec<i128>> {
    // Has a bit wherever one of the values has one that was cut off.
    let mut cut = 0;
    let mut each = |left: i128, right: i128| {
        let (l, r) = (left as i64, right as i64);
        cut |= (i128::from(l) ^ left) | (i128::from(r) ^ right);
        of(l, r)
    };
    let results: Vec<i128> = match (left, right) {
        (Values::Each(l), Values::Each(r)) => {
            l.values().iter().zip(r.values()).map(|(l, r)| each(*l, *r)).collect()
        }
        (Values::Each(l), Values::Always(r)) => l.values().iter().map(|l| each(*l, *r)).collect(),
        (Values::Always(l), Values::Each(r)) => r.values().iter().map(|r| each(*l, *r)).collect(),
        (Values::Always(_), Values::Always(_)) => return None,
    };
    (cut == 0 && results.len() == rows).then_some(results)
}
