//! What is expected of the values of one column.

use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};

/// What a text takes, if nobody knows.
const TEXT: f64 = 24.0;

/// What is expected of the values of one column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnEstimate {
    /// How many different ones there are.
    pub distinct: f64,
    /// How many bytes one takes.
    pub width: f64,
    /// Between which numbers they are, if they are numbers or can be counted as such.
    pub range: Option<(f64, f64)>,
    /// Which part of them is null.
    pub nulls: f64,
    /// Whether the rows of a value are all in one channel.
    pub is_partition_key: bool,
}

impl ColumnEstimate {
    /// Of a column that nobody knows anything of: all values are different.
    pub fn unknown(data_type: &DataType, rows: f64) -> ColumnEstimate {
        let (distinct, width) = (rows.max(1.0), width(data_type));
        ColumnEstimate { distinct, width, range: None, nulls: 0.0, is_partition_key: false }
    }

    /// Of one with such statistics.
    pub fn of_statistics(statistics: &ColumnStatistics, data_type: &DataType, rows: f64) -> ColumnEstimate {
        let number = |value: &Precision<ScalarValue>| value.get_value().and_then(number);
        let range = number(&statistics.min_value).zip(number(&statistics.max_value));
        let is_discrete = data_type.is_integer() || data_type.is_temporal();
        let counted = statistics.distinct_count.get_value().map(|n| *n as f64);
        // Whole numbers of a range can only be so many.
        let ranged = range.filter(|_| is_discrete).map(|(min, max)| max - min + 1.0);
        let distinct = counted.or(ranged).unwrap_or(rows).min(rows).max(1.0);
        let nulls = statistics.null_count.get_value().map_or(0.0, |n| *n as f64 / rows.max(1.0));
        let bytes = statistics.byte_size.get_value().map(|bytes| *bytes as f64 / rows.max(1.0));
        let width = match data_type.primitive_width() {
            Some(width) => width as f64,
            // What a file holds is packed: a text is longer than its share of it.
            None => bytes.map_or(TEXT, |bytes| bytes.clamp(TEXT / 2.0, 4096.0)),
        };
        ColumnEstimate { distinct, width, range, nulls: nulls.clamp(0.0, 1.0), is_partition_key: false }
    }
}

/// How many bytes a value of this type takes.
pub(super) fn width(data_type: &DataType) -> f64 {
    match data_type {
        DataType::Boolean => 0.125,
        DataType::Null => 0.0,
        other => other.primitive_width().map_or(TEXT, |width| width as f64),
    }
}

/// A value as a number: what is more is a larger number. None of what cannot be counted.
pub fn number(value: &ScalarValue) -> Option<f64> {
    use ScalarValue as S;
    let decimal = |value: f64, scale: i8| value / 10f64.powi(scale.into());
    match value {
        S::Int8(v) => v.map(f64::from),
        S::Int16(v) => v.map(f64::from),
        S::Int32(v) | S::Date32(v) | S::Time32Second(v) | S::Time32Millisecond(v) => v.map(f64::from),
        S::Int64(v) | S::Date64(v) | S::Time64Microsecond(v) | S::Time64Nanosecond(v) => v.map(|v| v as f64),
        S::UInt8(v) => v.map(f64::from),
        S::UInt16(v) => v.map(f64::from),
        S::UInt32(v) => v.map(f64::from),
        S::UInt64(v) => v.map(|v| v as f64),
        S::Float32(v) => v.map(f64::from),
        S::Float64(v) => *v,
        S::Decimal32(v, _, scale) => v.map(|v| decimal(f64::from(v), *scale)),
        S::Decimal64(v, _, scale) => v.map(|v| decimal(v as f64, *scale)),
        S::Decimal128(v, _, scale) => v.map(|v| decimal(v as f64, *scale)),
        S::TimestampSecond(v, _)
        | S::TimestampMillisecond(v, _)
        | S::TimestampMicrosecond(v, _)
        | S::TimestampNanosecond(v, _) => v.map(|v| v as f64),
        _ => None,
    }
    .filter(|number| number.is_finite())
}
