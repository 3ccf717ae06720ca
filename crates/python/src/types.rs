//! The names of data types in Python: `"int64"`, `"timestamp[us, UTC]"`, `int`.
//!
//! Invariant: `parse(&name(t))` is `t` for every type that can be parsed. Others, such as maps and unions,
//! only have a name.

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::plan_err;
use datafusion::error::Result;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::error::raise;

/// The name of a type: in lower case, with parameters in brackets.
pub fn name(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 => "string".into(),
        DataType::LargeUtf8 => "large_string".into(),
        DataType::Utf8View => "string_view".into(),
        DataType::Boolean => "bool".into(),
        DataType::Date32 => "date".into(),
        DataType::Timestamp(unit, None) => format!("timestamp[{}]", unit_name(unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp[{}, {zone}]", unit_name(unit)),
        DataType::Duration(unit) => format!("duration[{}]", unit_name(unit)),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time[{}]", unit_name(unit)),
        DataType::Interval(IntervalUnit::MonthDayNano) => "interval".into(),
        DataType::Decimal128(precision, scale) => format!("decimal[{precision}, {scale}]"),
        DataType::List(item) => format!("list[{}]", name(item.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|f| format!("{}: {}", f.name(), name(f.data_type()))).collect();
            format!("struct[{}]", fields.join(", "))
        }
        DataType::Dictionary(_, values) => format!("dictionary[{}]", name(values)),
        other => other.to_string().to_lowercase(),
    }
}

/// The name of a unit of time.
fn unit_name(unit: &TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// The most lists and structs inside one another. Every walk over a type or a value of it is recursive.
pub const MAX_DEPTH: usize = 100;

/// The type of a name.
///
/// # Errors
/// `Plan` with a list of names if there is no such type.
pub fn parse(text: &str) -> Result<DataType> {
    if depth(text) > MAX_DEPTH {
        return plan_err!("a type is made of at most {MAX_DEPTH} lists and structs inside one another");
    }
    parse_part(text)
}

/// How many brackets are inside one another.
fn depth(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for character in text.chars() {
        match character {
            '[' | '<' | '(' => open += 1,
            ']' | '>' | ')' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// The type of a name that is not too deep.
fn parse_part(text: &str) -> Result<DataType> {
    let text = text.trim();
    let lower = text.to_lowercase();
    if let Some(simple) = parse_simple(&lower) {
        return Ok(simple);
    }
    match split_parameters(text) {
        Some((head, inner)) => parse_with_parameters(text, &head, inner),
        None => unknown_type(text),
    }
}

/// A type without parameters.
fn parse_simple(lower: &str) -> Option<DataType> {
    Some(match lower {
        "null" => DataType::Null,
        "bool" | "boolean" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" | "int" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float16" => DataType::Float16,
        "float32" => DataType::Float32,
        "float64" | "float" | "double" => DataType::Float64,
        "string" | "str" | "utf8" => DataType::Utf8,
        "large_string" | "largeutf8" => DataType::LargeUtf8,
        "string_view" | "utf8view" => DataType::Utf8View,
        "binary" | "bytes" => DataType::Binary,
        "date" | "date32" => DataType::Date32,
        "date64" => DataType::Date64,
        "datetime" | "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "duration" => DataType::Duration(TimeUnit::Microsecond),
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "interval" => DataType::Interval(IntervalUnit::MonthDayNano),
        _ => return None,
    })
}

/// Splits `head[inner]`, `head<inner>` or `head(inner)`.
fn split_parameters(text: &str) -> Option<(String, &str)> {
    let open = text.find(['[', '<', '('])?;
    let close = match text.as_bytes()[open] {
        b'[' => ']',
        b'<' => '>',
        _ => ')',
    };
    let inner = text[open + 1..].strip_suffix(close)?;
    Some((text[..open].trim().to_lowercase(), inner.trim()))
}

/// A type with parameters.
fn parse_with_parameters(text: &str, head: &str, inner: &str) -> Result<DataType> {
    match head {
        "timestamp" | "datetime" => match inner.split_once(',') {
            None => Ok(DataType::Timestamp(parse_unit(text, inner)?, None)),
            Some((unit, zone)) => {
                let zone = zone.trim().trim_matches(['"', '\'']);
                Ok(DataType::Timestamp(parse_unit(text, unit)?, Some(zone.into())))
            }
        },
        "duration" => Ok(DataType::Duration(parse_unit(text, inner)?)),
        "time" => match parse_unit(text, inner)? {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => Ok(DataType::Time32(unit)),
            unit => Ok(DataType::Time64(unit)),
        },
        "decimal" | "decimal128" => {
            match inner.split_once(',').map(|(p, s)| (p.trim().parse(), s.trim().parse())) {
                Some((Ok(precision), Ok(scale))) => Ok(DataType::Decimal128(precision, scale)),
                _ => plan_err!(
                    "\"{text}\" is no type: write \"decimal[precision, scale]\", e.g. \"decimal[18, 2]\""
                ),
            }
        }
        "list" => Ok(DataType::new_list(parse_part(inner)?, true)),
        "struct" => {
            let fields = split_fields(inner).into_iter().map(|field| match field.split_once(':') {
                Some((name, data_type)) => Ok(Field::new(name.trim(), parse_part(data_type)?, true)),
                None => plan_err!("\"{text}\" is no type: write \"struct[name: type, ...]\""),
            });
            Ok(DataType::Struct(fields.collect::<Result<Vec<_>>>()?.into()))
        }
        "dictionary" => Ok(DataType::Dictionary(Box::new(DataType::Int32), Box::new(parse_part(inner)?))),
        _ => unknown_type(text),
    }
}

/// Splits at the commas outside of brackets.
fn split_fields(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, character) in text.char_indices() {
        match character {
            '[' | '<' | '(' => depth += 1,
            ']' | '>' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// A unit of time.
fn parse_unit(text: &str, unit: &str) -> Result<TimeUnit> {
    match unit.trim() {
        "s" => Ok(TimeUnit::Second),
        "ms" => Ok(TimeUnit::Millisecond),
        "us" | "µs" => Ok(TimeUnit::Microsecond),
        "ns" => Ok(TimeUnit::Nanosecond),
        other => plan_err!("\"{text}\" is no type: \"{other}\" is no unit of time (s, ms, us, ns)"),
    }
}

/// The error for a name that no type has.
fn unknown_type<T>(text: &str) -> Result<T> {
    plan_err!(
        "\"{text}\" is no type. Types: bool, int8 … int64, uint8 … uint64, float32, float64, string, binary, \
         date, timestamp[us], timestamp[us, UTC], duration[us], decimal[18, 2], list[int64], \
         struct[a: int64, b: string]"
    )
}

/// The type that a Python object names: a string, a class (`int`, `datetime`), or a type object of Arrow.
///
/// # Errors
/// `InvalidError` if it names none.
pub fn extract(object: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if let Ok(text) = object.cast::<PyString>() {
        return parse(&text.to_cow()?).map_err(raise);
    }
    if object.hasattr("__arrow_c_schema__")? {
        let data_type: pyo3_arrow::PyDataType = object.extract()?;
        return Ok(data_type.into_inner());
    }
    let class: String = match object.getattr("__name__") {
        Ok(class) => class.extract()?,
        Err(_) => object.repr()?.to_string(),
    };
    match class.as_str() {
        "int" | "float" | "str" | "bool" | "bytes" | "date" | "datetime" | "time" => {
            parse(&class).map_err(raise)
        }
        "timedelta" => parse("duration").map_err(raise),
        // The types of Polars are classes and instances with names such as Int64 and String.
        other => parse(other).map_err(raise),
    }
}
