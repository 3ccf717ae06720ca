//! Whole numbers by their digits: `bin`, `bit_count`, `a << b`, `a >> b`.
//!
//! ```sql
//! select bin(5), bit_count(7), 1 << 4;  -- 101, 3, 16
//! ```

use super::Mapped;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, StringArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::{Arc, LazyLock};

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let whole = || vec![DataType::Int64];
    vec![
        Mapped::exact(
            "bin",
            whole(),
            |_| Ok(DataType::Utf8),
            |numbers| {
                let digits = |n: i64| format!("{n:b}");
                let numbers = numbers[0].as_primitive::<Int64Type>().iter();
                Ok(Arc::new(numbers.map(|n| n.map(digits)).collect::<StringArray>()) as ArrayRef)
            },
        ),
        Mapped::exact(
            "bit_count",
            whole(),
            |_| Ok(DataType::Int64),
            |numbers| {
                let ones = |n: i64| i64::from(n.count_ones());
                Ok(Arc::new(numbers[0].as_primitive::<Int64Type>().unary::<_, Int64Type>(ones) as Int64Array)
                    as ArrayRef)
            },
        ),
    ]
}

/// `a << b`: the digits of `a`, moved up; an error where one gets lost.
pub(crate) fn shift_left() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let two = Signature::any(2, Volatility::Immutable);
        Mapped::function("shift_left", two, shifted, |args| each(args, left))
    });
    Arc::clone(&FUNCTION)
}

/// `a >> b`: the digits of `a`, moved down.
pub(crate) fn shift_right() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let two = Signature::any(2, Volatility::Immutable);
        Mapped::function("shift_right", two, shifted, |args| each(args, right))
    });
    Arc::clone(&FUNCTION)
}

/// A shifted number has the type that it had.
fn shifted(types: &[DataType]) -> Result<DataType> {
    match types {
        [of, by] if of.is_integer() && (by.is_integer() || by.is_null()) => Ok(of.clone()),
        [DataType::Null, _] => Ok(DataType::Int64),
        [of, by] => plan_err!("whole numbers are shifted by whole numbers, not {of} by {by}; cast them"),
        _ => plan_err!("a shift is of a number, by a number"),
    }
}

/// Larger numbers than those of 64 bits: what is shifted may be too large for them.
const WIDE: DataType = DataType::Decimal128(38, 0);

/// Shifts each number.
fn each(args: &[ArrayRef], shift: fn(i128, i128, u32) -> Result<i128>) -> Result<ArrayRef> {
    let kind = shifted(&[args[0].data_type().clone(), args[1].data_type().clone()])?;
    let bits = 8 * kind.primitive_width().unwrap_or(8) as u32 - u32::from(kind.is_signed_integer());
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let wide = |array: &ArrayRef| cast_with_options(array, &WIDE, &strict);
    let (numbers, by) = (wide(&args[0])?, wide(&args[1])?);
    let by = by.as_primitive::<Decimal128Type>();
    let shifted = numbers
        .as_primitive::<Decimal128Type>()
        .iter()
        .zip(by)
        .map(|(number, by)| number.zip(by).map(|(number, by)| shift(number, by, bits)).transpose());
    let shifted = shifted.collect::<Result<Decimal128Array>>()?.with_precision_and_scale(38, 0)?;
    Ok(cast_with_options(&shifted, &kind, &strict)?)
}

/// `bits`: how many digits a number has, without its sign.
fn left(number: i128, by: i128, bits: u32) -> Result<i128> {
    match (number, by) {
        (_, ..0) => exec_err!("{number} << {by}: a number of digits to shift by is not negative"),
        (..0, _) => exec_err!("{number} << {by}: a negative number is not shifted to the left; multiply it"),
        (0, _) => Ok(0),
        _ if by < i128::from(bits) && number < 1 << (i128::from(bits) - by) => Ok(number << by),
        _ => exec_err!("{number} << {by} is too large for its type: cast the number to a larger one"),
    }
}

/// A number shifted to the right.
fn right(number: i128, by: i128, bits: u32) -> Result<i128> {
    match by {
        0.. if by <= i128::from(bits) => Ok(number >> by),
        _ => Ok(0),
    }
}
