//! Literals and type names in Python.
//!
//! A literal is written as a Python value (`5`, `"a"`, `date(2013, 1, 1)`) if the Python API converts it to
//! the same value of the same type. Otherwise it is written with its type: `wb.lit(5, "int32")`.

use super::document::Doc;
use crate::names::unit_name;
use arrow::array::Array;
use arrow::datatypes::TimeUnit::Microsecond;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue, plan_err};

/// The name of a type for `cast` and `lit`; `None` if Python has no name for it.
pub(super) fn type_name(data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Utf8 => "string".into(),
        DataType::LargeUtf8 => "large_string".into(),
        DataType::Utf8View => "string_view".into(),
        DataType::Boolean => "bool".into(),
        DataType::Date32 => "date".into(),
        DataType::Null | DataType::Date64 | DataType::Binary => format!("{data_type:?}").to_lowercase(),
        t if t.is_integer() || t.is_floating() => format!("{t:?}").to_lowercase(),
        DataType::Timestamp(unit, None) => format!("timestamp[{}]", unit_name(*unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp[{}, {zone}]", unit_name(*unit)),
        DataType::Duration(unit) => format!("duration[{}]", unit_name(*unit)),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time[{}]", unit_name(*unit)),
        DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano) => "interval".into(),
        DataType::Decimal128(precision, scale) => format!("decimal[{precision}, {scale}]"),
        DataType::List(item) => format!("list[{}]", type_name(item.data_type())?),
        DataType::Dictionary(key, values) if **key == DataType::Int32 => {
            format!("dictionary[{}]", type_name(values)?)
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|f| Some(format!("{}: {}", f.name(), type_name(f.data_type())?)));
            format!("struct[{}]", fields.collect::<Option<Vec<_>>>()?.join(", "))
        }
        _ => return None,
    })
}

/// A Python string literal.
pub(super) fn python_string(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() && (c as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A Python value as a literal of the type of the other operand, so that no column has to be cast.
///
/// Durations, timestamps and decimals take the unit, zone or scale of the operand if nothing is lost. `None`
/// if the value keeps its type: other types, and literals whose type the user gave.
///
/// ```
/// use datafusion::arrow::datatypes::{DataType, TimeUnit};
/// use datafusion::common::ScalarValue;
/// use whimbrel_plan::literal_for_operand;
///
/// let five_seconds = ScalarValue::DurationMicrosecond(Some(5_000_000));
/// let seconds = DataType::Timestamp(TimeUnit::Second, None);
/// assert_eq!(literal_for_operand(&five_seconds, &seconds), Some(ScalarValue::DurationSecond(Some(5))));
/// let half_a_second = ScalarValue::DurationMicrosecond(Some(500_000));
/// assert_eq!(literal_for_operand(&half_a_second, &seconds), None);
/// ```
pub fn literal_for_operand(value: &ScalarValue, other: &DataType) -> Option<ScalarValue> {
    let target = match (&value.data_type(), other) {
        (DataType::Duration(Microsecond), DataType::Duration(unit) | DataType::Timestamp(unit, _)) => {
            DataType::Duration(*unit)
        }
        (DataType::Timestamp(Microsecond, zone), DataType::Timestamp(_, other_type))
            if zone.is_some() == other_type.is_some() =>
        {
            other.clone()
        }
        (DataType::Decimal128(38, scale), DataType::Decimal128(_, other_type)) if scale <= other_type => {
            other.clone()
        }
        _ => return None,
    };
    let cast = value.cast_to(&target).ok()?;
    // The cast has to be lossless.
    (!cast.is_null() && cast.cast_to(&value.data_type()).is_ok_and(|back| back == *value)).then_some(cast)
}

/// A rule by which a Python value takes the type of the other operand.
pub(super) type CastLiteral = fn(&ScalarValue, &DataType) -> Option<ScalarValue>;

/// [`literal_for_operand`] for comparisons: an integer also takes the integer type of the other operand, if
/// it is in its range.
///
/// ```
/// use datafusion::arrow::datatypes::DataType;
/// use datafusion::common::ScalarValue;
/// use whimbrel_plan::literal_for_comparison;
///
/// let one = ScalarValue::Int64(Some(1));
/// assert_eq!(literal_for_comparison(&one, &DataType::Int8), Some(ScalarValue::Int8(Some(1))));
/// assert_eq!(literal_for_comparison(&ScalarValue::Int64(Some(300)), &DataType::Int8), None);
/// ```
pub fn literal_for_comparison(value: &ScalarValue, other: &DataType) -> Option<ScalarValue> {
    match value {
        ScalarValue::Int64(Some(_)) if other.is_integer() => {
            value.cast_to(other).ok().filter(|v| !v.is_null())
        }
        _ => literal_for_operand(value, other),
    }
}

/// The value that the Python API makes of the Python literal, and the text of that literal.
///
/// `None` if Python has no literal for the value.
pub(super) fn python_value(value: &ScalarValue) -> Option<(ScalarValue, String)> {
    Some(match value {
        ScalarValue::Boolean(Some(b)) => (value.clone(), if *b { "True" } else { "False" }.to_string()),
        ScalarValue::Utf8(Some(s)) | ScalarValue::LargeUtf8(Some(s)) | ScalarValue::Utf8View(Some(s)) => {
            (ScalarValue::Utf8(Some(s.clone())), python_string(s))
        }
        ScalarValue::Dictionary(_, inner) => return python_value(inner),
        ScalarValue::Float64(Some(v)) => (value.clone(), float(*v)),
        ScalarValue::Float32(Some(v)) => (ScalarValue::Float64(Some(f64::from(*v))), float(f64::from(*v))),
        ScalarValue::Binary(Some(bytes)) => (value.clone(), bytes_text(bytes)),
        ScalarValue::Date32(Some(days)) => (value.clone(), date(*days)?),
        // Coercion casts an integer to this type opposite a decimal.
        ScalarValue::Decimal128(Some(v), 20, 0) => {
            let v = i64::try_from(*v).ok()?;
            (ScalarValue::Int64(Some(v)), v.to_string())
        }
        ScalarValue::Decimal128(Some(_), _, scale) => decimal(value, *scale)?,
        v if v.data_type().is_integer() && !v.is_null() => integer(v)?,
        v if matches!(v.data_type(), DataType::Timestamp(..)) && !v.is_null() => datetime(v)?,
        v if matches!(v.data_type(), DataType::Duration(_)) && !v.is_null() => timedelta(v)?,
        _ => return None,
    })
}

/// A literal of exactly this value and type: `wb.lit(5, "int32")`.
///
/// # Errors
/// `Plan` if Python has no name for the type or no object for the value.
pub(super) fn typed_literal(value: &ScalarValue) -> Result<Doc> {
    if let Some((value_in_python, text)) = python_value(value)
        && value_in_python == *value
    {
        return Ok(Doc::Text(format!("wb.lit({text})")));
    }
    let Some(name) = type_name(&value.data_type()) else {
        return plan_err!(
            "there is no way to write a constant of type {}",
            crate::names::type_name(&value.data_type())
        );
    };
    match python_object(value) {
        Some(_) if value.data_type().is_null() => Ok(Doc::text("wb.lit(None)")),
        Some(text) => Ok(Doc::Text(format!("wb.lit({text}, {})", python_string(&name)))),
        None => plan_err!("there is no way to write the constant {value}"),
    }
}

/// A literal among column names: strings are wrapped in `wb.lit(…)`, because a bare string is a column.
pub(super) fn argument_text(value: &ScalarValue) -> Result<Doc> {
    match python_value(value) {
        Some((value_in_python, text))
            if value_in_python == *value && !matches!(value, ScalarValue::Utf8(_)) =>
        {
            Ok(Doc::Text(text))
        }
        _ => typed_literal(value),
    }
}

/// A Python object from which `wb.lit(object, type)` makes the value.
pub(super) fn python_object(value: &ScalarValue) -> Option<String> {
    if value.is_null() {
        return Some("None".to_string());
    }
    if let Some((_, text)) = python_value(value) {
        return Some(text);
    }
    match value {
        ScalarValue::List(list) => {
            let items = list.value(0);
            let items =
                (0..items.len()).map(|i| python_object(&ScalarValue::try_from_array(&items, i).ok()?));
            Some(format!("[{}]", items.collect::<Option<Vec<_>>>()?.join(", ")))
        }
        v if matches!(v.data_type(), DataType::Interval(_) | DataType::Time64(_) | DataType::Time32(_)) => {
            let text = v.cast_to(&DataType::Utf8).ok()?;
            Some(python_string(text.try_as_str()??))
        }
        v if matches!(v.data_type(), DataType::Timestamp(..) | DataType::Duration(_)) => {
            v.cast_to(&DataType::Int64).ok().map(|ticks| ticks.to_string())
        }
        _ => None,
    }
}

/// A Python bytes literal: `b"\x00a"`.
fn bytes_text(bytes: &[u8]) -> String {
    let byte = |b: &u8| match b {
        b'"' | b'\\' => format!("\\{}", char::from(*b)),
        b' '..=b'~' => char::from(*b).to_string(),
        b => format!("\\x{b:02x}"),
    };
    format!("b\"{}\"", bytes.iter().map(byte).collect::<String>())
}

fn integer(value: &ScalarValue) -> Option<(ScalarValue, String)> {
    let text = value.to_string();
    let value_in_python = match value {
        ScalarValue::UInt64(Some(v)) if i64::try_from(*v).is_err() => value.clone(),
        v => v.cast_to(&DataType::Int64).ok()?,
    };
    Some((value_in_python, text))
}

fn float(value: f64) -> String {
    match value {
        v if v.is_nan() => "float(\"nan\")".to_string(),
        v if v.is_infinite() => format!("float(\"{}inf\")", if v < 0.0 { "-" } else { "" }),
        v => format!("{v:?}"),
    }
}

/// A Python date: `date(1998, 9, 2)`. `None` outside the years 1 to 9999.
fn date(days: i32) -> Option<String> {
    let (year, month, day) = civil(i64::from(days));
    (1..=9999).contains(&year).then(|| format!("date({year}, {month}, {day})"))
}

/// Year, month and day of a number of days since 1970 (Hinnant, "chrono-compatible low-level date
/// algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

fn decimal(value: &ScalarValue, scale: i8) -> Option<(ScalarValue, String)> {
    let text = value.cast_to(&DataType::Utf8).ok()?;
    let text = text.try_as_str()??.to_string();
    let value_in_python = value.cast_to(&DataType::Decimal128(38, scale.max(0))).ok()?;
    Some((value_in_python, format!("Decimal(\"{text}\")")))
}

/// The value in microseconds; `None` if it is not an integer number of them.
fn micros(value: &ScalarValue, unit: TimeUnit) -> Option<i64> {
    let ticks = match value.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(Some(ticks)) => ticks,
        _ => return None,
    };
    match unit {
        TimeUnit::Second => ticks.checked_mul(1_000_000),
        TimeUnit::Millisecond => ticks.checked_mul(1_000),
        TimeUnit::Microsecond => Some(ticks),
        TimeUnit::Nanosecond => (ticks % 1_000 == 0).then_some(ticks / 1_000),
    }
}

/// A Python datetime: `datetime(2013, 1, 1, 12, 30)`. Zones are written as UTC.
fn datetime(value: &ScalarValue) -> Option<(ScalarValue, String)> {
    let DataType::Timestamp(unit, zone) = value.data_type() else { return None };
    let micros = micros(value, unit)?;
    let (year, month, day) = civil(micros.div_euclid(86_400_000_000));
    if !(1..=9999).contains(&year) {
        return None;
    }
    let of_day = micros.rem_euclid(86_400_000_000);
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let mut parts = vec![year, month, day, seconds / 3600, seconds / 60 % 60, seconds % 60, fraction];
    while parts.len() > 3 && parts.last() == Some(&0) {
        parts.pop();
    }
    let mut text: Vec<String> = parts.iter().map(i64::to_string).collect();
    if zone.is_some() {
        text.push("tzinfo=timezone.utc".to_string());
    }
    let zone = zone.map(|_| "UTC".into());
    Some((ScalarValue::TimestampMicrosecond(Some(micros), zone), format!("datetime({})", text.join(", "))))
}

/// A Python timedelta in its largest unit: `timedelta(minutes=5)`.
fn timedelta(value: &ScalarValue) -> Option<(ScalarValue, String)> {
    let DataType::Duration(unit) = value.data_type() else { return None };
    let micros = micros(value, unit)?;
    const UNITS: [(&str, i64); 6] = [
        ("days", 86_400_000_000),
        ("hours", 3_600_000_000),
        ("minutes", 60_000_000),
        ("seconds", 1_000_000),
        ("milliseconds", 1_000),
        ("microseconds", 1),
    ];
    let best = UNITS.iter().find(|(_, size)| micros % size == 0);
    let text = best.map(|(name, size)| format!("timedelta({name}={})", micros / size))?;
    Some((ScalarValue::DurationMicrosecond(Some(micros)), text))
}
