//! Types of columns, and single values between Arrow arrays and the bytes of the store.
//!
//! Invariant: a [`Datum`] never outlives the array or the bytes that it was read from. Integers, dates and
//! timestamps of any width are all [`Datum::Int`], so equal numbers have equal keys whatever the width of
//! their columns.

use crate::error::{Error, Result};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder,
    Float64Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    /// `boolean`
    Bool,
    /// `smallint`
    Int16,
    /// `int`
    Int32,
    /// `bigint`
    Int64,
    /// `double`
    Float64,
    /// `decimal(precision, scale)`
    Decimal(u8, i8),
    /// `varchar(n)`, at most so many characters; `text` without an end.
    Text(Option<u32>),
    /// `varbinary(n)`, at most so many bytes; `bytea` without an end.
    Bytes(Option<u32>),
    /// `date`
    Date,
    /// `timestamp`, in microseconds
    Timestamp,
}

impl Type {
    /// The type of a column that holds such values, without a length.
    pub(crate) fn holding(values: &DataType) -> Option<Type> {
        Some(match values {
            DataType::Boolean => Type::Bool,
            DataType::Int16 => Type::Int16,
            DataType::Int32 => Type::Int32,
            DataType::Int64 => Type::Int64,
            DataType::Float64 => Type::Float64,
            DataType::Decimal128(precision, scale) => Type::Decimal(*precision, *scale),
            DataType::Utf8 | DataType::Utf8View => Type::Text(None),
            DataType::Binary => Type::Bytes(None),
            DataType::Date32 => Type::Date,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Type::Timestamp,
            _ => return None,
        })
    }

    /// The type of its Arrow column.
    pub fn arrow(self) -> DataType {
        match self {
            Type::Bool => DataType::Boolean,
            Type::Int16 => DataType::Int16,
            Type::Int32 => DataType::Int32,
            Type::Int64 => DataType::Int64,
            Type::Float64 => DataType::Float64,
            Type::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
            Type::Text(_) => DataType::Utf8,
            Type::Bytes(_) => DataType::Binary,
            Type::Date => DataType::Date32,
            Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }

    /// The most bytes that a value takes in a row; `None` if the type has no length.
    pub fn max_bytes(self) -> Option<u64> {
        match self {
            Type::Bool => Some(1),
            Type::Int16 => Some(2),
            Type::Int32 | Type::Date => Some(4),
            Type::Int64 | Type::Float64 | Type::Timestamp => Some(8),
            Type::Decimal(..) => Some(16),
            // A character takes at most four bytes; the length before it at most five.
            Type::Text(length) => length.map(|n| 4 * u64::from(n) + 5),
            Type::Bytes(length) => length.map(|n| u64::from(n) + 5),
        }
    }

    /// Whether keys of these types can be compared byte by byte.
    pub(crate) fn same_keys(left: &DataType, right: &DataType) -> bool {
        let whole = |t: &DataType| matches!(t, DataType::Int16 | DataType::Int32 | DataType::Int64);
        left == right || (whole(left) && whole(right))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("boolean"),
            Type::Int16 => f.write_str("smallint"),
            Type::Int32 => f.write_str("int"),
            Type::Int64 => f.write_str("bigint"),
            Type::Float64 => f.write_str("double"),
            Type::Decimal(precision, scale) => write!(f, "decimal({precision}, {scale})"),
            Type::Text(Some(n)) => write!(f, "varchar({n})"),
            Type::Text(None) => f.write_str("text"),
            Type::Bytes(Some(n)) => write!(f, "varbinary({n})"),
            Type::Bytes(None) => f.write_str("bytea"),
            Type::Date => f.write_str("date"),
            Type::Timestamp => f.write_str("timestamp"),
        }
    }
}

impl Type {
    /// Its name in messages about values: `INTEGER`.
    pub(crate) fn sql_name(self) -> String {
        match self {
            Type::Int32 => "INTEGER".to_string(),
            other => other.to_string().to_uppercase(),
        }
    }
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Datum<'a> {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number, a date (days) or an instant (microseconds).
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A decimal number, without its scale.
    Decimal(i128),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

impl Datum<'_> {
    /// The value in this row of a column.
    ///
    /// # Errors
    /// `Internal` for an Arrow type that no column of a table has.
    pub fn of(column: &dyn Array, row: usize) -> Result<Datum<'_>> {
        if column.is_null(row) {
            return Ok(Datum::Null);
        }
        Ok(match column.data_type() {
            DataType::Boolean => Datum::Bool(column.as_boolean().value(row)),
            DataType::Int16 => Datum::Int(column.as_primitive::<Int16Type>().value(row).into()),
            DataType::Int32 => Datum::Int(column.as_primitive::<Int32Type>().value(row).into()),
            DataType::Int64 => Datum::Int(column.as_primitive::<Int64Type>().value(row)),
            DataType::Float64 => Datum::Float(column.as_primitive::<Float64Type>().value(row)),
            DataType::Decimal128(..) => Datum::Decimal(column.as_primitive::<Decimal128Type>().value(row)),
            DataType::Utf8 => Datum::Text(column.as_string::<i32>().value(row)),
            DataType::Utf8View => Datum::Text(column.as_string_view().value(row)),
            DataType::Binary => Datum::Bytes(column.as_binary::<i32>().value(row)),
            DataType::Date32 => Datum::Int(column.as_primitive::<Date32Type>().value(row).into()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Datum::Int(column.as_primitive::<TimestampMicrosecondType>().value(row))
            }
            DataType::Null => Datum::Null,
            other => return Err(Error::Internal(format!("a value of type {other} cannot be stored"))),
        })
    }
}

/// A column that grows value by value.
pub(crate) enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
}

macro_rules! append {
    ($builder:expr, $value:expr, $name:literal, $($pattern:pat => $get:expr),+) => {
        match $value {
            $($pattern => $builder.append_value($get),)+
            Datum::Null => $builder.append_null(),
            other => return Err(Error::Internal(format!("{other:?} in a column of type {}", $name))),
        }
    };
}

impl ColumnBuilder {
    /// With room for so many rows, and for so many bytes if they are texts.
    ///
    /// # Errors
    /// `Internal` if a decimal type is out of range.
    pub fn new(of: Type, rows: usize, bytes: usize) -> Result<ColumnBuilder> {
        Ok(match of {
            Type::Bool => ColumnBuilder::Bool(BooleanBuilder::with_capacity(rows)),
            Type::Int16 => ColumnBuilder::Int16(Int16Builder::with_capacity(rows)),
            Type::Int32 => ColumnBuilder::Int32(Int32Builder::with_capacity(rows)),
            Type::Int64 => ColumnBuilder::Int64(Int64Builder::with_capacity(rows)),
            Type::Float64 => ColumnBuilder::Float64(Float64Builder::with_capacity(rows)),
            Type::Decimal(precision, scale) => ColumnBuilder::Decimal(
                Decimal128Builder::with_capacity(rows).with_precision_and_scale(precision, scale)?,
            ),
            Type::Text(_) => ColumnBuilder::Text(StringBuilder::with_capacity(rows, bytes)),
            Type::Bytes(_) => ColumnBuilder::Bytes(BinaryBuilder::with_capacity(rows, bytes)),
            Type::Date => ColumnBuilder::Date(Date32Builder::with_capacity(rows)),
            Type::Timestamp => ColumnBuilder::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows)),
        })
    }

    /// Appends a value.
    ///
    /// # Errors
    /// `Internal` if the value does not have the type of the column.
    pub fn append(&mut self, value: Datum<'_>) -> Result<()> {
        match self {
            ColumnBuilder::Bool(b) => append!(b, value, "boolean", Datum::Bool(v) => v),
            ColumnBuilder::Int16(b) => append!(b, value, "smallint", Datum::Int(v) => v as i16),
            ColumnBuilder::Int32(b) => append!(b, value, "int", Datum::Int(v) => v as i32),
            ColumnBuilder::Int64(b) => append!(b, value, "bigint", Datum::Int(v) => v),
            ColumnBuilder::Float64(b) => append!(b, value, "double", Datum::Float(v) => v),
            ColumnBuilder::Decimal(b) => append!(b, value, "decimal", Datum::Decimal(v) => v),
            ColumnBuilder::Text(b) => append!(b, value, "text", Datum::Text(v) => v),
            ColumnBuilder::Bytes(b) => append!(b, value, "bytes", Datum::Bytes(v) => v),
            ColumnBuilder::Date(b) => append!(b, value, "date", Datum::Int(v) => v as i32),
            ColumnBuilder::Timestamp(b) => append!(b, value, "timestamp", Datum::Int(v) => v),
        }
        Ok(())
    }

    /// The column.
    pub fn finish(mut self) -> ArrayRef {
        match &mut self {
            ColumnBuilder::Bool(b) => Arc::new(b.finish()),
            ColumnBuilder::Int16(b) => Arc::new(b.finish()),
            ColumnBuilder::Int32(b) => Arc::new(b.finish()),
            ColumnBuilder::Int64(b) => Arc::new(b.finish()),
            ColumnBuilder::Float64(b) => Arc::new(b.finish()),
            ColumnBuilder::Decimal(b) => Arc::new(b.finish()),
            ColumnBuilder::Text(b) => Arc::new(b.finish()),
            ColumnBuilder::Bytes(b) => Arc::new(b.finish()),
            ColumnBuilder::Date(b) => Arc::new(b.finish()),
            ColumnBuilder::Timestamp(b) => Arc::new(b.finish()),
        }
    }
}
