//! Floats at the limits of their types: casts to four bytes that fail where a value is too large, and `round`
//! and `trunc` to any number of digits.

use super::Mapped;
use datafusion::arrow::array::{ArrayRef, AsArray, Float32Array, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::sync::{Arc, LazyLock};

/// `x::float`.
pub(crate) fn narrow() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let one = Signature::any(1, Volatility::Immutable);
        Mapped::function("to_float", one, |_| Ok(DataType::Float32), |args| narrowed(&args[0], false))
    });
    Arc::clone(&FUNCTION)
}

/// `try_cast(x as float)`.
pub(crate) fn narrow_or_null() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let one = Signature::any(1, Volatility::Immutable);
        Mapped::function("try_to_float", one, |_| Ok(DataType::Float32), |args| narrowed(&args[0], true))
    });
    Arc::clone(&FUNCTION)
}

/// The values as floats of four bytes; a value that is too large is refused or null.
fn narrowed(values: &ArrayRef, or_null: bool) -> Result<ArrayRef> {
    let narrow = |value: Option<f64>| match value {
        Some(value) if value.is_finite() && (value as f32).is_infinite() => match or_null {
            true => Ok(None),
            false => exec_err!("{value:e} is too large for a float of four bytes; take double"),
        },
        value => Ok(value.map(|value| value as f32)),
    };
    let values = values.as_primitive::<Float64Type>().iter().map(narrow);
    Ok(Arc::new(values.collect::<Result<Float32Array>>()?))
}

/// `round(x, digits)` of a float.
pub(crate) fn round() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let two = Signature::any(2, Volatility::Immutable);
        Mapped::function("round_float", two, |types| Ok(types[0].clone()), |args| to_digits(args, f64::round))
    });
    Arc::clone(&FUNCTION)
}

/// `trunc(x, digits)` of a float.
pub(crate) fn trunc() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let two = Signature::any(2, Volatility::Immutable);
        Mapped::function("trunc_float", two, |types| Ok(types[0].clone()), |args| to_digits(args, f64::trunc))
    });
    Arc::clone(&FUNCTION)
}

/// Values with so many digits behind their point; `whole` makes integers of numbers.
fn to_digits(args: &[ArrayRef], whole: fn(f64) -> f64) -> Result<ArrayRef> {
    let (values, digits) = (cast(&args[0], &DataType::Float64)?, cast(&args[1], &DataType::Int64)?);
    let values = values.as_primitive::<Float64Type>().iter().zip(digits.as_primitive::<Int64Type>());
    let shortened =
        values.map(|(value, digits)| value.zip(digits).map(|(value, digits)| shorten(value, digits, whole)));
    Ok(cast(&shortened.collect::<Float64Array>(), args[0].data_type())?)
}

/// A value has no digits that far behind its point; and it is nothing of what is that much larger.
fn shorten(value: f64, digits: i64, whole: fn(f64) -> f64) -> f64 {
    let size = 10_f64.powi(digits.unsigned_abs().min(400) as i32);
    let shortened = match digits {
        0.. => whole(value * size) / size,
        _ => whole(value / size) * size,
    };
    match shortened.is_finite() {
        true => shortened,
        false if digits < 0 && value.is_finite() => 0.0,
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn any_number_of_digits() {
        let values = [(1.2345, 1000), (1.5, -1000), (1.2345, 2), (1e308, 5), (12345.678, -2), (-2.5, 0)];
        let wanted = [1.2345, 0.0, 1.23, 1e308, 12300.0, -3.0];
        assert_eq!(values.map(|(value, digits)| shorten(value, digits, f64::round)), wanted);
        assert!(shorten(f64::NAN, -400, f64::round).is_nan());
        assert_eq!(shorten(f64::INFINITY, -400, f64::round), f64::INFINITY);
        let truncated = [(123.456, 1000), (-1.59, 1), (1.5, 309), (178.9, -1)];
        let wanted = [123.456, -1.5, 1.5, 170.0];
        assert_eq!(truncated.map(|(value, digits)| shorten(value, digits, f64::trunc)), wanted);
    }
}
