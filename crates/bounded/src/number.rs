//! Exact numbers, compared with columns of any numeric type.
//!
//! No value of `decimal(10, 2)` equals 9.9949, and `price < 9.9949` is true of 9.99. So a number that is not
//! a value of the column's type is an end of an interval, and is not rounded.

use datafusion::arrow::datatypes::{DataType, Decimal128Type, DecimalType};
use datafusion::common::ScalarValue;

/// A number, as digits without a point and how many of them stand behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    /// All digits, with the sign.
    digits: i128,
    /// How many of them are behind the point.
    scale: i32,
}

/// Where a number lies among the values of a type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NumberPosition {
    /// It is this one.
    Exact(ScalarValue),
    /// Between this one and the next.
    Between(ScalarValue),
    /// Less than all of them, of which this is the least.
    BelowAll(ScalarValue),
    /// Greater than all of them, of which this is the greatest.
    AboveAll(ScalarValue),
}

impl Number {
    /// The number that a value is; of a floating-point number the one that it is written as.
    pub fn of(value: &ScalarValue) -> Option<Number> {
        match value {
            ScalarValue::Decimal128(Some(digits), _, scale) => {
                Some(Number { digits: *digits, scale: (*scale).into() })
            }
            ScalarValue::Float64(Some(value)) => Number::parse(&value.to_string()),
            ScalarValue::Utf8(Some(text)) => Number::parse(text.trim()),
            value if value.data_type().is_integer() => Number::parse(&value.to_string()),
            _ => None,
        }
    }

    /// `-12.50`; `None` if it is none, or has more digits than any column.
    fn parse(text: &str) -> Option<Number> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = [whole, fraction].concat();
        let is_decimal = !all.is_empty() && all.bytes().all(|byte| byte.is_ascii_digit());
        let digits: i128 = all.parse().ok().filter(|_| is_decimal)?;
        Some(Number { digits: sign * digits, scale: i32::try_from(fraction.len()).ok()? })
    }

    /// Where it lies among the values of a type of whole numbers or decimals.
    pub fn position(self, of: &DataType) -> Option<NumberPosition> {
        let (least, greatest, scale) = extent(of)?;
        let (floor, exact) = match u32::try_from(self.scale - scale) {
            Ok(fewer) => match 10_i128.checked_pow(fewer) {
                Some(unit) => (self.digits.div_euclid(unit), self.digits.rem_euclid(unit) == 0),
                None => (if self.digits < 0 { -1 } else { 0 }, self.digits == 0),
            },
            Err(_) => {
                let unit = 10_i128.checked_pow(scale.abs_diff(self.scale));
                match unit.and_then(|unit| self.digits.checked_mul(unit)) {
                    Some(digits) => (digits, true),
                    None if self.digits < 0 => return Some(NumberPosition::BelowAll(value(of, least)?)),
                    None => return Some(NumberPosition::AboveAll(value(of, greatest)?)),
                }
            }
        };
        Some(match exact {
            _ if floor < least => NumberPosition::BelowAll(value(of, least)?),
            _ if floor > greatest || (floor == greatest && !exact) => {
                NumberPosition::AboveAll(value(of, greatest)?)
            }
            true => NumberPosition::Exact(value(of, floor)?),
            false => NumberPosition::Between(value(of, floor)?),
        })
    }

    /// The nearest value of a type, of two the one farther from zero, as PostgreSQL stores it; `None` if it
    /// is too large.
    pub fn nearest(self, of: &DataType) -> Option<ScalarValue> {
        let (least, greatest, scale) = extent(of)?;
        let fewer = u32::try_from(self.scale - scale).unwrap_or(0);
        let rounded = match 10_i128.checked_pow(fewer) {
            Some(unit) if fewer > 0 => {
                let (quotient, rest) = (self.digits / unit, self.digits % unit);
                quotient + if rest.abs() >= unit - rest.abs() { self.digits.signum() } else { 0 }
            }
            Some(_) => {
                self.digits.checked_mul(10_i128.checked_pow(u32::try_from(scale - self.scale).ok()?)?)?
            }
            None => 0,
        };
        (least..=greatest).contains(&rounded).then(|| value(of, rounded))?
    }

    /// As a literal, without loss.
    pub fn literal(self) -> Option<ScalarValue> {
        match self.scale {
            0 => i64::try_from(self.digits).ok().map(|digits| ScalarValue::Int64(Some(digits))),
            _ => None,
        }
        .or_else(|| Some(ScalarValue::Decimal128(Some(self.digits), 38, i8::try_from(self.scale).ok()?)))
    }

    /// As SQL writes it.
    pub fn text(self) -> Option<String> {
        Some(Decimal128Type::format_decimal(self.digits, 38, i8::try_from(self.scale).ok()?))
    }
}

/// The least and the greatest value of a type, without a point, and how many digits stand behind it.
fn extent(of: &DataType) -> Option<(i128, i128, i32)> {
    let whole = |least: i64, greatest: i64| Some((least.into(), greatest.into(), 0));
    match of {
        DataType::Int16 => whole(i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => whole(i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => whole(i64::MIN, i64::MAX),
        DataType::Decimal128(precision, scale) => {
            let greatest = 10_i128.checked_pow((*precision).into())? - 1;
            Some((-greatest, greatest, (*scale).into()))
        }
        _ => None,
    }
}

/// The value of a type with these digits.
fn value(of: &DataType, digits: i128) -> Option<ScalarValue> {
    Some(match of {
        DataType::Int16 => ScalarValue::Int16(Some(i16::try_from(digits).ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(i32::try_from(digits).ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(i64::try_from(digits).ok()?)),
        DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(digits), *precision, *scale),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_lies_at_a_value_or_between_two() {
        let cents = DataType::Decimal128(4, 2);
        let position = |text: &str, of: &DataType| Number::parse(text).and_then(|number| number.position(of));
        let cent = |digits| ScalarValue::Decimal128(Some(digits), 4, 2);
        for (text, lies) in [
            ("9.99", NumberPosition::Exact(cent(999))),
            ("9.990", NumberPosition::Exact(cent(999))),
            ("9.9949", NumberPosition::Between(cent(999))),
            ("-9.9949", NumberPosition::Between(cent(-1000))),
            ("0.00000000000000000000000000000000000001", NumberPosition::Between(cent(0))),
            ("99.99", NumberPosition::Exact(cent(9999))),
            ("99.991", NumberPosition::AboveAll(cent(9999))),
            ("-100", NumberPosition::BelowAll(cent(-9999))),
            ("10000000000000000000000000000000000000", NumberPosition::AboveAll(cent(9999))),
        ] {
            assert_eq!(position(text, &cents), Some(lies), "{text}");
        }
        let least = ScalarValue::Int32(Some(i32::MIN));
        assert_eq!(position("-2147483648.5", &DataType::Int32), Some(NumberPosition::BelowAll(least)));
        assert_eq!(position("NaN", &cents), None);
        assert_eq!(position("1", &DataType::Float64), None);
    }

    #[test]
    fn what_is_stored_is_the_nearest() {
        let nearest = |text: &str, of: &DataType| Number::parse(text).and_then(|n| n.nearest(of));
        for (text, stored) in [("2.5", 3), ("-2.5", -3), ("2.49", 2), ("7", 7), ("1e2", 0)] {
            let stored = Some(ScalarValue::Int32(Some(stored))).filter(|_| text != "1e2");
            assert_eq!(nearest(text, &DataType::Int32), stored, "{text}");
        }
        assert_eq!(nearest("32767.5", &DataType::Int16), None);
        assert_eq!(nearest("3", &DataType::Decimal128(4, 2)), Some(ScalarValue::Decimal128(Some(300), 4, 2)));
    }
}
