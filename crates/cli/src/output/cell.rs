//! Values and types as text, the same in every format that people read.

use datafusion::arrow::array::{Array, ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use datafusion::common::Result;
use rustyline::GraphemeClusterMode;
use std::sync::Arc;

/// The format of timestamps, as SQL writes them.
pub const TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.f";
/// The same, with the offset of the time zone.
pub const TIMESTAMP_TZ: &str = "%Y-%m-%d %H:%M:%S%.f%:z";

/// How values are formatted.
const OPTIONS: FormatOptions<'static> = FormatOptions::new()
    .with_null("NULL")
    .with_timestamp_format(Some(TIMESTAMP))
    .with_timestamp_tz_format(Some(TIMESTAMP_TZ))
    .with_duration_format(DurationFormat::Pretty);

/// The values of a batch, a list a column. Control characters are escaped.
///
/// # Errors
/// `ArrowError` if a value has no text.
pub fn cell_texts(rows: &RecordBatch) -> Result<Vec<Vec<String>>> {
    rows.columns().iter().map(|column| column_texts(column)).collect()
}

/// A column cast to text, for formats without lists and structs. Nulls stay nulls.
///
/// # Errors
/// `ArrowError` if a value has no text.
pub fn cast_to_text(column: &dyn Array) -> Result<ArrayRef> {
    let format = ArrayFormatter::try_new(column, &OPTIONS)?;
    let text = |row| column.is_valid(row).then(|| format.value(row).to_string());
    Ok(Arc::new((0..column.len()).map(text).collect::<StringArray>()))
}

/// The values of a column.
fn column_texts(column: &dyn Array) -> Result<Vec<String>> {
    let format = ArrayFormatter::try_new(column, &OPTIONS)?;
    Ok((0..column.len()).map(|row| escape_control(format.value(row).to_string())).collect())
}

/// Escapes line breaks and other control characters.
pub fn escape_control(text: String) -> String {
    if text.chars().any(char::is_control) { text.escape_debug().to_string() } else { text }
}

/// The width of a text on a terminal.
pub fn width(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        // One character at a time: the width of a long text may not fit the type that rustyline returns.
        false => text.chars().map(character_width).sum(),
    }
}

/// The width of a character on a terminal.
fn character_width(character: char) -> usize {
    match character.is_ascii() {
        true => 1,
        false => GraphemeClusterMode::WcWidth.width(character.encode_utf8(&mut [0; 4])).into(),
    }
}

/// Truncates a text to a width. A truncated one ends with an ellipsis.
pub fn truncate(text: &str, max_width: usize) -> String {
    if width(text) <= max_width {
        return text.to_string();
    }
    let mut used = 0;
    let fits = |character: &char| {
        used += character_width(*character);
        used < max_width
    };
    text.chars().take_while(fits).chain(std::iter::once('…')).collect()
}

/// Whether values of a type are aligned to the right.
pub fn is_right_aligned(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// The name of a type in SQL.
pub fn type_name(data_type: &DataType) -> String {
    use DataType as D;
    match data_type {
        D::Utf8 | D::LargeUtf8 | D::Utf8View => "varchar".into(),
        D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_) => "blob".into(),
        D::Float32 => "float".into(),
        D::Float64 => "double".into(),
        D::Date32 | D::Date64 => "date".into(),
        D::Time32(_) | D::Time64(_) => "time".into(),
        D::Timestamp(unit, zone) => timestamp(*unit, zone.is_some()),
        D::Duration(_) | D::Interval(_) => "interval".into(),
        D::Decimal32(p, s) | D::Decimal64(p, s) | D::Decimal128(p, s) | D::Decimal256(p, s) => {
            format!("decimal({p},{s})")
        }
        D::List(f) | D::LargeList(f) | D::ListView(f) | D::LargeListView(f) | D::FixedSizeList(f, _) => {
            format!("{}[]", type_name(f.data_type()))
        }
        D::Struct(fields) => {
            let fields = fields.iter().map(|f| format!("{} {}", f.name(), type_name(f.data_type())));
            format!("struct({})", fields.collect::<Vec<_>>().join(", "))
        }
        D::Map(entry, _) => match entry.data_type() {
            D::Struct(fields) => {
                let parts: Vec<String> = fields.iter().map(|f| type_name(f.data_type())).collect();
                format!("map({})", parts.join(", "))
            }
            other => type_name(other),
        },
        D::Dictionary(_, values) => type_name(values),
        other => other.to_string().to_lowercase(),
    }
}

/// The name of a timestamp type in SQL.
fn timestamp(unit: TimeUnit, zoned: bool) -> String {
    let unit = match unit {
        TimeUnit::Second => "_s",
        TimeUnit::Millisecond => "_ms",
        TimeUnit::Microsecond => "",
        TimeUnit::Nanosecond => "_ns",
    };
    let zone = if zoned { " with time zone" } else { "" };
    format!("timestamp{unit}{zone}")
}
