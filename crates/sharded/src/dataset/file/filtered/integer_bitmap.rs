//! Evaluates a conjunct once per distinct integer and looks rows up in a bitmap.
//!
//! It is made for the filters that a join sends to its probe side: a lookup in the hash table of the join
//! costs more than one of a bit. So where a column has far fewer integers than rows, the conjunct is
//! evaluated for all integers between the minimum and the maximum of the column first.

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

/// How many rows there have to be for each integer.
const ROWS_PER_INTEGER: usize = 4;

/// For how many integers the conjunct is evaluated at once.
const CHUNK: usize = 1 << 16;

/// Which integers satisfy a conjunct; see the module.
#[derive(Debug)]
pub(super) struct IntegerBitmap {
    first: i64,
    /// A bit for each integer from `first` on.
    matches: BooleanBuffer,
    null_matches: bool,
}

impl IntegerBitmap {
    /// The bitmap of a conjunct over one column, for the integers that it has in some row groups of `rows`
    /// rows in all. `schema` is that of the column. None: they are no integers, or too many, or the footer
    /// has no range.
    pub fn of(
        conjunct: &Arc<dyn PhysicalExpr>,
        schema: &Arc<Schema>,
        file: &File,
        row_groups: &[usize],
        rows: usize,
    ) -> Option<IntegerBitmap> {
        let (first, last) = range(schema.field(0).name(), file, row_groups)?;
        let count = usize::try_from(last.checked_sub(first)?).ok()?.checked_add(1)?;
        if count.checked_mul(ROWS_PER_INTEGER)? > rows {
            return None;
        }
        let evaluate = |integers: ArrayRef| {
            let length = integers.len();
            let batch = RecordBatch::try_new(Arc::clone(schema), vec![integers]).ok()?;
            let matches = conjunct.evaluate(&batch).ok()?.into_array(length).ok()?;
            Some(matches.as_boolean_opt()?.iter().map(|matches| matches == Some(true)).collect::<Vec<bool>>())
        };
        let mut matches = Vec::with_capacity(count);
        for from in (0..count).step_by(CHUNK) {
            let integers = (from..count.min(from + CHUNK)).map(|at| first + at as i64);
            let integers: ArrayRef = Arc::new(Int64Array::from_iter_values(integers));
            matches.extend(evaluate(cast(&integers, schema.field(0).data_type()).ok()?)?);
        }
        let null_matches = match schema.field(0).is_nullable() {
            true => *evaluate(new_null_array(schema.field(0).data_type(), 1))?.first()?,
            false => false,
        };
        Some(IntegerBitmap { first, matches: matches.into(), null_matches })
    }

    /// For each row whether it satisfies the conjunct. None: the column is not of integers.
    pub fn lookup(&self, column: &ArrayRef) -> Option<BooleanBuffer> {
        match column.data_type() {
            DataType::Int32 => Some(self.lookup_each(column.as_primitive::<Int32Type>())),
            DataType::Int64 => Some(self.lookup_each(column.as_primitive::<Int64Type>())),
            _ => None,
        }
    }

    /// Looks each row up in the bitmap.
    fn lookup_each<T: ArrowPrimitiveType>(&self, column: &PrimitiveArray<T>) -> BooleanBuffer
    where
        T::Native: Into<i64>,
    {
        let bit = |integer: T::Native| {
            // An integer outside the range that the statistics promise is left to the join.
            let at = integer.into().wrapping_sub(self.first) as u64;
            at >= self.matches.len() as u64 || self.matches.value(at as usize)
        };
        let values = column.values();
        match column.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => BooleanBuffer::collect_bool(values.len(), |row| bit(values[row])),
            Some(nulls) => BooleanBuffer::collect_bool(values.len(), |row| match nulls.is_valid(row) {
                true => bit(values[row]),
                false => self.null_matches,
            }),
        }
    }
}

/// The minimum and the maximum of a column in these row groups.
fn range(column: &str, file: &File, row_groups: &[usize]) -> Option<(i64, i64)> {
    let metadata = &file.metadata;
    if !matches!(
        metadata.schema().field_with_name(column).ok()?.data_type(),
        DataType::Int32 | DataType::Int64
    ) {
        return None;
    }
    let converter =
        StatisticsConverter::try_new(column, metadata.schema(), metadata.parquet_schema()).ok()?;
    let groups = || row_groups.iter().map(|group| metadata.metadata().row_group(*group));
    let integers = |found: ArrayRef| {
        let found = cast(&found, &DataType::Int64).ok()?;
        (found.null_count() == 0).then_some(found)
    };
    let least = integers(converter.row_group_mins(groups()).ok()?)?;
    let largest = integers(converter.row_group_maxes(groups()).ok()?)?;
    Some((min(least.as_primitive::<Int64Type>())?, max(largest.as_primitive::<Int64Type>())?))
}
