//! Samples of a column of files: values between the minima and maxima of row groups, or the first values of
//! some parts of the files.

use super::location::Location;
use super::shard_reader::FilePart;
use super::{FileDataset, Unit};
use crate::dataset::{Reader, integers};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::compute::{cast, concat};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use std::ops::Range;
use std::sync::Arc;
use whimbrel_plan::source::SAMPLE_VALUES;

/// How many parts of files are read for one at most.
const PARTS_READ: usize = 16;

/// A sample of a column, from the footers if they tell how its numbers are spread. Values of other columns
/// are read, but not from object stores, where that takes requests.
pub(super) fn of(files: &FileDataset, column: usize) -> Option<ArrayRef> {
    let field = files.schema.field(column);
    let from_footers = |kind: &DataType| match kind {
        kind if kind.is_integer() || kind.is_temporal() => integers_between(&files.units, field.name()),
        kind if kind.is_floating() || kind.is_decimal() => numbers_between(&files.units, field.name()),
        _ => None,
    };
    match from_footers(field.data_type()) {
        Some(values) => cast(&values, field.data_type()).ok(),
        None => read(files, column),
    }
}

/// Integers at equal distances between the minimum and the maximum of each row group, in the number of its
/// rows. None if a file is not Parquet, or a footer has no minima and maxima.
fn integers_between(units: &[Unit], column: &str) -> Option<ArrayRef> {
    let first = |values: &ArrayRef| integers(values)?.first().map(|value| i128::from(*value));
    let bounds = bounds(units, column, first)?;
    let values = spread(&bounds).flat_map(|(Range { start: min, end: max }, count)| {
        (0..count as i128)
            .map(move |place| (min + (max - min) * (2 * place + 1) / (2 * count as i128)) as i64)
    });
    Some(Arc::new(Int64Array::from_iter_values(values)))
}

/// The same for numbers with fractions.
fn numbers_between(units: &[Unit], column: &str) -> Option<ArrayRef> {
    let first = |values: &ArrayRef| {
        let values = cast(values, &DataType::Float64).ok()?;
        values.as_primitive::<Float64Type>().iter().flatten().next().filter(|value| value.is_finite())
    };
    let bounds = bounds(units, column, first)?;
    let values = spread(&bounds).flat_map(|(Range { start: min, end: max }, count)| {
        (0..count).map(move |place| min + (max - min) * (2 * place + 1) as f64 / (2 * count) as f64)
    });
    Some(Arc::new(Float64Array::from_iter_values(values)))
}

/// The minimum and the maximum of a column in a row group, and the number of rows.
struct Bounds<T> {
    range: Range<T>,
    rows: usize,
}

/// What the footers say of all row groups.
fn bounds<T>(units: &[Unit], column: &str, value: impl Fn(&ArrayRef) -> Option<T>) -> Option<Vec<Bounds<T>>> {
    let of_unit = |unit: &Unit| {
        let Unit::Parquet { file, row_group } = unit else { return None };
        let metadata = &file.metadata;
        let group = metadata.metadata().row_group(*row_group);
        let converter =
            StatisticsConverter::try_new(column, metadata.schema(), metadata.parquet_schema()).ok()?;
        let min = value(&converter.row_group_mins([group]).ok()?)?;
        let max = value(&converter.row_group_maxes([group]).ok()?)?;
        Some(Bounds { range: min..max, rows: usize::try_from(group.num_rows()).ok()? })
    };
    units.iter().map(of_unit).collect()
}

/// The ranges with rows, and how many values of the sample are in each.
fn spread<T: Clone>(bounds: &[Bounds<T>]) -> impl Iterator<Item = (Range<T>, usize)> {
    let rows: usize = bounds.iter().map(|bounds| bounds.rows).sum();
    let filled = bounds.iter().filter(|bounds| bounds.rows > 0);
    filled.map(move |bounds| {
        let count = bounds.rows as u128 * SAMPLE_VALUES as u128 / rows as u128;
        (bounds.range.clone(), (count as usize).max(1))
    })
}

/// The first values of some parts of the files, which are at equal distances. None if a part cannot be read,
/// or is not on this machine.
fn read(files: &FileDataset, column: usize) -> Option<ArrayRef> {
    let distance = files.units.len().div_ceil(PARTS_READ).max(1);
    let parts: Vec<&Unit> = files.units.iter().step_by(distance).collect();
    let each = SAMPLE_VALUES / parts.len().max(1);
    let first_values = |unit: &&Unit| {
        let Location::Path(_) = unit.location() else { return None };
        let part = FilePart { unit: Unit::clone(unit), offset: 0, length: unit.rows(), required: vec![] };
        let mut reader = files.reader_of(vec![part], Some(&[column]), each).ok()?;
        // A part may have no rows.
        let rows = reader.next().ok()?;
        Some(rows.map(|rows| Arc::clone(rows.column(0))))
    };
    let values: Vec<Option<ArrayRef>> = parts.iter().map(first_values).collect::<Option<_>>()?;
    let values: Vec<&dyn Array> = values.iter().flatten().map(|values| values.as_ref()).collect();
    concat(&values).ok()
}
