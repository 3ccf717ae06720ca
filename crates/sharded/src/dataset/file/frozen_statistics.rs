//! Statistics as bytes: what a planner knows of files goes along with them, since reading it again takes
//! requests.

use super::frozen_table::{read_table, write_table};
use datafusion::arrow::array::{ArrayRef, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics, plan_err};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The statistics of all rows.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FrozenStatistics {
    rows: Option<u64>,
    bytes: Option<u64>,
    columns: Vec<FrozenColumn>,
    /// The minima and the maxima of all columns, as a stream of Arrow IPC with two rows; nulls where they are
    /// not known.
    #[serde(with = "serde_bytes")]
    ranges: Vec<u8>,
}

/// The statistics of a column.
#[derive(Debug, Serialize, Deserialize)]
struct FrozenColumn {
    nulls: Option<u64>,
    distinct: Option<u64>,
    bytes: Option<u64>,
}

impl FrozenStatistics {
    /// Statistics as bytes.
    ///
    /// # Errors
    /// `ArrowError` if a minimum is of another type than its column.
    pub fn of(statistics: &Statistics, schema: &Schema) -> Result<FrozenStatistics> {
        let column = |column: &ColumnStatistics| FrozenColumn {
            nulls: count(&column.null_count),
            distinct: count(&column.distinct_count),
            bytes: count(&column.byte_size),
        };
        let ranges = statistics.column_statistics.iter().zip(schema.fields());
        let ranges = ranges.map(|(column, field)| range(column, field.data_type())).collect::<Result<_>>()?;
        let columns = Arc::new(columns_of_ranges(schema));
        let two = RecordBatchOptions::new().with_row_count(Some(2));
        Ok(FrozenStatistics {
            rows: count(&statistics.num_rows),
            bytes: count(&statistics.total_byte_size),
            columns: statistics.column_statistics.iter().map(column).collect(),
            ranges: write_table(&RecordBatch::try_new_with_options(columns, ranges, &two)?)?,
        })
    }

    /// The statistics of rows with these columns.
    ///
    /// # Errors
    /// `Plan` or `ArrowError` if they are damaged.
    pub fn thaw(&self, schema: &SchemaRef) -> Result<Statistics> {
        let ranges = read_table(&self.ranges)?;
        let expected = columns_of_ranges(schema);
        if ranges.num_rows() != 2
            || *ranges.schema() != expected
            || self.columns.len() != schema.fields().len()
        {
            return plan_err!("the statistics of a source of this plan are damaged");
        }
        let column = |(column, range): (&FrozenColumn, &ArrayRef)| {
            Ok(ColumnStatistics {
                null_count: precision(column.nulls),
                distinct_count: precision(column.distinct),
                byte_size: precision(column.bytes),
                min_value: bound(range, 0)?,
                max_value: bound(range, 1)?,
                ..ColumnStatistics::new_unknown()
            })
        };
        Ok(Statistics {
            num_rows: precision(self.rows),
            total_byte_size: precision(self.bytes),
            column_statistics: self
                .columns
                .iter()
                .zip(ranges.columns())
                .map(column)
                .collect::<Result<_>>()?,
        })
    }
}

/// The columns of minima and maxima. Their names play no part, and may occur twice.
fn columns_of_ranges(schema: &Schema) -> Schema {
    let columns = schema.fields().iter().enumerate();
    let column =
        |(at, field): (usize, &Arc<Field>)| Field::new(at.to_string(), field.data_type().clone(), true);
    Schema::new(columns.map(column).collect::<Vec<_>>())
}

fn count(number: &Precision<usize>) -> Option<u64> {
    number.get_value().map(|number| *number as u64)
}

fn precision(number: Option<u64>) -> Precision<usize> {
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.map_or(Precision::Absent, Precision::Inexact)
}

/// The minimum and the maximum of a column.
fn range(column: &ColumnStatistics, data_type: &DataType) -> Result<ArrayRef> {
    let value = |bound: &Precision<ScalarValue>| match bound.get_value() {
        Some(value) if value.data_type() == *data_type => Ok(value.clone()),
        _ => ScalarValue::try_new_null(data_type),
    };
    match (value(&column.min_value), value(&column.max_value)) {
        (Ok(min), Ok(max)) => ScalarValue::iter_to_array([min, max]),
        // Of some types there is no value.
        _ => Ok(new_null_array(data_type, 2)),
    }
}

/// One end of the range of a column.
fn bound(range: &ArrayRef, row: usize) -> Result<Precision<ScalarValue>> {
    match range.is_null(row) {
        true => Ok(Precision::Absent),
        false => Ok(Precision::Inexact(ScalarValue::try_from_array(range, row)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_come_back_as_they_were() {
        let fields = vec![
            Field::new("n", DataType::Int64, true),
            Field::new("text", DataType::Utf8View, true),
            Field::new("list", DataType::new_list(DataType::Int32, true), true),
        ];
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let mut statistics = Statistics::new_unknown(&schema);
        statistics.num_rows = Precision::Inexact(7);
        let [n, text, _] = &mut statistics.column_statistics[..] else { panic!("three columns") };
        n.min_value = Precision::Inexact(ScalarValue::from(-3_i64));
        n.max_value = Precision::Inexact(ScalarValue::from(4_i64));
        n.distinct_count = Precision::Inexact(5);
        text.min_value = Precision::Inexact(ScalarValue::Utf8View(Some("a".to_string())));
        text.null_count = Precision::Inexact(0);
        let frozen = FrozenStatistics::of(&statistics, &schema).unwrap();
        assert_eq!(frozen.thaw(&schema).unwrap(), statistics);
        let other: SchemaRef = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
        assert!(frozen.thaw(&other).is_err());
    }
}
