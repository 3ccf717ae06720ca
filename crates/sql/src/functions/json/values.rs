//! Values as JSON. Numbers and conditions are what they are, lists are lists, structs and maps are objects;
//! everything else is its text between quotes.

use super::document::{float, quoted};
use crate::functions::text;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;

/// One value.
///
/// # Errors
/// `ArrowError` if a value cannot be written.
pub(super) fn json(values: &ArrayRef, at: usize) -> Result<String> {
    if is_null(values, at) {
        return Ok("null".to_string());
    }
    match values.data_type() {
        DataType::Boolean => Ok(values.as_boolean().value(at).to_string()),
        kind if kind.is_integer() => text::value(values, at),
        kind if kind.is_floating() => {
            let one = cast(&values.slice(at, 1), &DataType::Float64)?;
            Ok(float(one.as_primitive::<Float64Type>().value(0)))
        }
        kind if kind.is_decimal() => Ok(decimal(text::value(values, at)?)),
        DataType::List(_) => list(&values.as_list::<i32>().value(at)),
        DataType::LargeList(_) => list(&values.as_list::<i64>().value(at)),
        DataType::FixedSizeList(..) => list(&values.as_fixed_size_list().value(at)),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(values.as_struct().columns());
            let fields =
                columns.map(|(field, column)| Ok(format!("{}:{}", quoted(field.name()), json(column, at)?)));
            Ok(object(fields.collect::<Result<_>>()?))
        }
        DataType::Map(..) => {
            let entries = values.as_map().value(at);
            let (keys, values) = (entries.column(0), entries.column(1));
            let field = |at| Ok(format!("{}:{}", quoted(&text::value(keys, at)?), json(values, at)?));
            Ok(object((0..entries.len()).map(field).collect::<Result<_>>()?))
        }
        DataType::Dictionary(_, kind) => json(&cast(&values.slice(at, 1), kind)?, 0),
        _ => Ok(quoted(&text::value(values, at)?)),
    }
}

/// Whether there is no value. An array of type null has no bits that say so.
pub(super) fn is_null(values: &ArrayRef, at: usize) -> bool {
    values.data_type().is_null() || values.is_null(at)
}

/// The values of a list as a JSON array.
fn list(values: &ArrayRef) -> Result<String> {
    let values = (0..values.len()).map(|at| json(values, at)).collect::<Result<Vec<_>>>()?;
    Ok(format!("[{}]", values.join(",")))
}

/// Fields as a JSON object.
fn object(fields: Vec<String>) -> String {
    format!("{{{}}}", fields.join(","))
}

/// With no more zeros behind the point than one.
fn decimal(digits: String) -> String {
    match digits.split_once('.') {
        Some((whole, fraction)) => match fraction.trim_end_matches('0') {
            "" => format!("{whole}.0"),
            fraction => format!("{whole}.{fraction}"),
        },
        None => digits,
    }
}
