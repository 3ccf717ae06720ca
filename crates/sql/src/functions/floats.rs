//! Floats at the limits of their types: casts to four bytes that fail where a value is too large, and `round`
//! to any number of digits.

use super::Mapped;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float32Array};
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
        Mapped::function(
            "round_float",
            two,
            |types| Ok(types[0].clone()),
            |args| {
                let (values, digits) =
                    (cast(&args[0], &DataType::Float64)?, cast(&args[1], &DataType::Int64)?);
                let values = values.as_primitive::<Float64Type>();
                let rounded = values
                    .iter()
                    .zip(digits.as_primitive::<Int64Type>())
                    .map(|(value, digits)| value.zip(digits).map(|(value, digits)| rounded(value, digits)));
                let rounded: datafusion::arrow::array::Float64Array = rounded.collect();
                Ok(cast(&rounded, args[0].data_type())?)
            },
        )
    });
    Arc::clone(&FUNCTION)
}

/// A value has no digits that far behind its point; and it is nothing of what is that much larger.
fn rounded(value: f64, digits: i64) -> f64 {
    let size = 10_f64.powi(digits.unsigned_abs().min(400) as i32);
    let rounded = match digits {
        0.. => (value * size).round() / size,
        _ => (value / size).round() * size,
    };
    match rounded.is_finite() {
        true => rounded,
        false if digits < 0 && value.is_finite() => 0.0,
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn any_number_of_digits() {
        let values = [(1.2345, 1000), (1.5, -1000), (1.2345, 2), (1e308, 5), (12345.678, -2), (-2.5, 0)];
        let wanted = [1.2345, 0.0, 1.23, 1e308, 12300.0, -3.0];
        assert_eq!(values.map(|(value, digits)| rounded(value, digits)), wanted);
        assert!(rounded(f64::NAN, -400).is_nan());
        assert_eq!(rounded(f64::INFINITY, -400), f64::INFINITY);
    }
}
