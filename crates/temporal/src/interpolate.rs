//! Values between two others: linear interpolation of columns.

use crate::values::{Form, Value};
use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use datafusion::common::{Result, internal_err};

/// The values that lie so far on the way from those of one column to those of another of its type: 0 is the
/// first, 1 the second. Whole numbers are rounded, halves away from zero. Null where one of the two is, or
/// the way.
///
/// # Errors
/// `Internal` if the columns are not of one type of numbers.
pub fn interpolate(from: &ArrayRef, to: &ArrayRef, at: &[Option<f64>]) -> Result<ArrayRef> {
    let data_type = from.data_type();
    let on_line: NullBuffer = at.iter().map(Option::is_some).collect::<Vec<bool>>().into();
    let nulls = NullBuffer::union(NullBuffer::union(from.nulls(), to.nulls()).as_ref(), Some(&on_line));
    let at: Vec<f64> = at.iter().map(|at| at.unwrap_or(0.0)).collect();
    match Form::of(data_type) {
        Form::Float => f64::array(between(from, to, &at, float_between)?, nulls, data_type),
        Form::Int => {
            let whole = |from: i64, to, at| whole_between(from.into(), i64::into(to), at) as i64;
            i64::array(between(from, to, &at, whole)?, nulls, data_type)
        }
        Form::Uint => {
            let whole = |from: u64, to, at| whole_between(from.into(), u64::into(to), at) as u64;
            u64::array(between(from, to, &at, whole)?, nulls, data_type)
        }
        Form::Decimal => i128::array(between(from, to, &at, whole_between)?, nulls, data_type),
        Form::Bytes => internal_err!("a line goes through numbers, not through {data_type}"),
    }
}

/// The values of two columns, brought together one by one.
fn between<V: Value>(
    from: &ArrayRef,
    to: &ArrayRef,
    at: &[f64],
    value: impl Fn(V, V, f64) -> V,
) -> Result<Vec<V>> {
    let (from, to) = (V::column(from)?, V::column(to)?);
    Ok(at.iter().enumerate().map(|(row, &at)| value(V::get(&from, row), V::get(&to, row), at)).collect())
}

fn float_between(from: f64, to: f64, at: f64) -> f64 {
    match to - from {
        difference if difference.is_finite() => from + difference * at,
        _ => from * (1.0 - at) + to * at,
    }
}

/// The nearest whole number, which is never beyond one of the two.
fn whole_between(from: i128, to: i128, at: f64) -> i128 {
    let way = (to.saturating_sub(from) as f64 * at).round() as i128;
    from.saturating_add(way).clamp(from.min(to), from.max(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Int64Array, UInt8Array};
    use arrow::datatypes::DataType;
    use std::sync::Arc;

    /// Values on the way from the first to the second.
    fn way<T: Array + 'static>(from: T, to: T, at: f64) -> ArrayRef {
        interpolate(&(Arc::new(from) as ArrayRef), &(Arc::new(to) as ArrayRef), &[Some(at)]).unwrap()
    }

    #[test]
    fn whole_numbers_stay_between_the_two() {
        let ends = |from: i64, to: i64, at| {
            let found = way(Int64Array::from(vec![from]), Int64Array::from(vec![to]), at);
            i64::column(&found).unwrap()[0]
        };
        assert_eq!([ends(0, 3, 0.5), ends(0, -3, 0.5), ends(7, 7, 0.3)], [2, -2, 7]);
        assert_eq!(ends(i64::MIN, i64::MAX, 0.5), 0);
        assert_eq!(ends(i64::MAX - 1, i64::MAX, 0.9), i64::MAX);
        let found = way(UInt8Array::from(vec![255]), UInt8Array::from(vec![0]), 0.5);
        assert_eq!(u64::column(&found).unwrap()[0], 127);
        let found = way(Decimal128Array::from(vec![100]), Decimal128Array::from(vec![200]), 0.25);
        assert_eq!(
            (i128::column(&found).unwrap()[0], found.data_type().clone()),
            (125, DataType::Decimal128(38, 10))
        );
    }

    #[test]
    fn floats_do_not_overflow_on_the_way() {
        assert_eq!(float_between(f64::MAX, -f64::MAX, 0.5), 0.0);
        assert_eq!(float_between(0.1, 0.1, 0.7), 0.1);
    }
}
