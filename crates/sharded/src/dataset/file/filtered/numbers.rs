//! What a term says of whole numbers, asked once a number instead of once a row.
//!
//! It is for what a join says of its probe side: to find a number in a table of the join costs more than to find a bit. So
//! where a column has far fewer numbers than rows, all numbers between its least and its largest are asked first.

use super::super::parquet::File;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray, RecordBatch, new_null_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{cast, max, min};
use datafusion::arrow::datatypes::{DataType, Int32Type, Int64Type, Schema};
use datafusion::physical_expr::PhysicalExpr;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use std::sync::Arc;

/// How many rows there have to be for each number.
const ROWS: usize = 4;

/// How many numbers are asked at once.
const AT_ONCE: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Numbers {
    first: i64,
    wanted: BooleanBuffer,
    null_wanted: bool,
}

impl Numbers {
    /// What a term over nothing but one column says of the numbers that some row groups, of so many rows, have in it; `schema`
    /// is that of this column. None: they are not whole, or too many, or nobody knows.
    pub fn of(
        term: &Arc<dyn PhysicalExpr>,
        schema: &Arc<Schema>,
        file: &File,
        groups: &[usize],
        rows: usize,
    ) -> Option<Numbers> {
        let (first, last) = range(schema.field(0).name(), file, groups)?;
        let count = usize::try_from(last.checked_sub(first)?).ok()?.checked_add(1)?;
        if count.checked_mul(ROWS)? > rows {
            return None;
        }
        let ask = |numbers: ArrayRef| {
            let asked = numbers.len();
            let batch = RecordBatch::try_new(Arc::clone(schema), vec![numbers]).ok()?;
            let wanted = term.evaluate(&batch).ok()?.into_array(asked).ok()?;
            Some(wanted.as_boolean_opt()?.iter().map(|wanted| wanted == Some(true)).collect::<Vec<bool>>())
        };
        let mut wanted = Vec::with_capacity(count);
        for from in (0..count).step_by(AT_ONCE) {
            let numbers = (from..count.min(from + AT_ONCE)).map(|at| first + at as i64);
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
            wanted.extend(ask(cast(&numbers, schema.field(0).data_type()).ok()?)?);
        }
        let null_wanted = match schema.field(0).is_nullable() {
            true => *ask(new_null_array(schema.field(0).data_type(), 1))?.first()?,
            false => false,
        };
        Some(Numbers { first, wanted: wanted.into(), null_wanted })
    }

    /// For each row whether it is wanted. None: the column has something else than numbers.
    pub fn hold(&self, column: &ArrayRef) -> Option<BooleanBuffer> {
        match column.data_type() {
            DataType::Int32 => Some(self.each(column.as_primitive::<Int32Type>())),
            DataType::Int64 => Some(self.each(column.as_primitive::<Int64Type>())),
            _ => None,
        }
    }

    fn each<T: ArrowPrimitiveType>(&self, column: &PrimitiveArray<T>) -> BooleanBuffer
    where
        T::Native: Into<i64>,
    {
        let of = |number: T::Native| {
            // A number that the statistics do not know of is left to the join.
            let at = number.into().wrapping_sub(self.first) as u64;
            at >= self.wanted.len() as u64 || self.wanted.value(at as usize)
        };
        let values = column.values();
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => BooleanBuffer::collect_bool(values.len(), |row| of(values[row])),
            Some(nulls) => BooleanBuffer::collect_bool(values.len(), |row| match nulls.is_valid(row) {
                true => of(values[row]),
                false => self.null_wanted,
            }),
        }
    }
}

/// The least and the largest number of a column.
fn range(column: &str, file: &File, groups: &[usize]) -> Option<(i64, i64)> {
    let metadata = &file.metadata;
    if !matches!(
        metadata.schema().field_with_name(column).ok()?.data_type(),
        DataType::Int32 | DataType::Int64
    ) {
        return None;
    }
    let converter =
        StatisticsConverter::try_new(column, metadata.schema(), metadata.parquet_schema()).ok()?;
    let groups = || groups.iter().map(|group| metadata.metadata().row_group(*group));
    let numbers = |found: ArrayRef| {
        let found = cast(&found, &DataType::Int64).ok()?;
        (found.null_count() == 0).then_some(found)
    };
    let least = numbers(converter.row_group_mins(groups()).ok()?)?;
    let largest = numbers(converter.row_group_maxes(groups()).ok()?)?;
    Some((min(least.as_primitive::<Int64Type>())?, max(largest.as_primitive::<Int64Type>())?))
}
