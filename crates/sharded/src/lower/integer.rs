//! Sums, differences and products of whole numbers that fail where the result is too large for its type.
//!
//! Invariant: whether a batch is computed without a check does not change an answer. It is if the largest of its numbers
//! cannot make a result that is too large; else the library's checked kernels compute it, and say which numbers do.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::kernels::numeric::{add, add_wrapping, mul, mul_wrapping, sub, sub_wrapping};
use datafusion::arrow::datatypes::{
    DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

/// Whether an operation on these types can be computed here.
pub(super) fn is_possible((left, right): &(DataType, DataType)) -> bool {
    left.is_integer() && left == right
}

/// The result of an operation on two whole numbers of one type.
pub(super) fn compute(op: Operator, left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    match (op, fits(op, left, right)?) {
        (Operator::Plus, true) => apply(left, right, add_wrapping),
        (Operator::Plus, false) => apply(left, right, add),
        (Operator::Minus, true) => apply(left, right, sub_wrapping),
        (Operator::Minus, false) => apply(left, right, sub),
        (_, true) => apply(left, right, mul_wrapping),
        (_, false) => apply(left, right, mul),
    }
}

/// Whether no result can be too large, by the digits of the largest numbers.
fn fits(op: Operator, left: &ColumnarValue, right: &ColumnarValue) -> Result<bool> {
    let (Some(l), Some(r)) = (digits(left)?, digits(right)?) else { return Ok(false) };
    let kind = left.data_type();
    let all = 8 * kind.primitive_width().unwrap_or_default() as u32;
    let all = if kind.is_signed_integer() { all - 1 } else { all };
    Ok(match op {
        // The least number of so many digits is one further from zero than the largest.
        Operator::Multiply if kind.is_signed_integer() => l + r < all,
        Operator::Multiply => l + r <= all,
        Operator::Minus => kind.is_signed_integer() && l.max(r) < all,
        _ => l.max(r) < all,
    })
}

/// How many binary digits the number with the most of them has, without its sign. What stands under a null counts, which
/// at worst makes a batch be computed with checks.
fn digits(value: &ColumnarValue) -> Result<Option<u32>> {
    let values = match value {
        ColumnarValue::Array(values) => Arc::clone(values),
        ColumnarValue::Scalar(value) => value.to_array()?,
    };
    // A negative number has as many digits as the one that it is the complement of.
    macro_rules! signed {
        ($kind:ty) => {
            values
                .as_primitive::<$kind>()
                .values()
                .iter()
                .fold(0, |all, v| all | (*v as i64 ^ (*v as i64 >> 63)) as u64)
        };
    }
    macro_rules! unsigned {
        ($kind:ty) => {
            values.as_primitive::<$kind>().values().iter().fold(0, |all, v| all | *v as u64)
        };
    }
    let all = match values.data_type() {
        DataType::Int8 => signed!(Int8Type),
        DataType::Int16 => signed!(Int16Type),
        DataType::Int32 => signed!(Int32Type),
        DataType::Int64 => signed!(Int64Type),
        DataType::UInt8 => unsigned!(UInt8Type),
        DataType::UInt16 => unsigned!(UInt16Type),
        DataType::UInt32 => unsigned!(UInt32Type),
        DataType::UInt64 => unsigned!(UInt64Type),
        _ => return Ok(None),
    };
    Ok(Some(u64::BITS - all.leading_zeros()))
}
