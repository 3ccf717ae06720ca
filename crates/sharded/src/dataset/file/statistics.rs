//! Statistics of files: those in the footers of Parquet files, and the distinct counts of their dictionaries.

use super::Unit;
use super::parquet::File;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics as ColumnStatistics;
use std::sync::Arc;

/// A longer dictionary is not read: its column has many values.
const MAX_DICTIONARY: i64 = 1 << 18;

/// How many row groups are sampled for dictionaries.
const SAMPLED_ROW_GROUPS: usize = 3;

/// The statistics of all rows of these units; unknown if a file is not Parquet.
pub(super) fn of(units: &[Unit], schema: &SchemaRef) -> Statistics {
    let mut files: Vec<&Arc<File>> = Vec::new();
    for unit in units {
        let Unit::Parquet { file, .. } = unit else { return Statistics::new_unknown(schema) };
        if !files.last().is_some_and(|last| Arc::ptr_eq(last, file)) {
            files.push(file);
        }
    }
    let statistics = files.iter().map(|file| file.statistics.get_or_init(|| of_file(file, schema)));
    Statistics::try_merge_iter(statistics, schema).unwrap_or_else(|_| Statistics::new_unknown(schema))
}

/// The statistics in the footer of a file, with distinct counts.
fn of_file(file: &File, schema: &SchemaRef) -> Statistics {
    let metadata = file.metadata.metadata();
    let Ok(mut statistics) = DFParquetMetadata::statistics_from_parquet_metadata(metadata, schema) else {
        return Statistics::new_unknown(schema);
    };
    // With nested columns, leaves and fields have different numbers.
    if metadata.file_metadata().schema_descr().num_columns() == statistics.column_statistics.len() {
        for (index, column) in statistics.column_statistics.iter_mut().enumerate() {
            if let Some(values) = distinct_count(file, index) {
                column.distinct_count = Precision::Inexact(values);
            }
        }
    }
    statistics
}

/// The estimated distinct count of a column, from the dictionaries of some row groups: the largest, if row
/// groups share their values; the largest for each row group, if each has values of its own.
fn distinct_count(file: &File, column: usize) -> Option<usize> {
    let metadata = file.metadata.metadata();
    let groups = metadata.num_row_groups();
    let step = groups.div_ceil(SAMPLED_ROW_GROUPS).max(1);
    let mut most = 0;
    for group in (0..groups).step_by(step) {
        let group = metadata.row_group(group);
        let values = dictionary_length(file, group.column(column), group.num_rows() as usize)?;
        if groups > 1 && values * 2 > group.num_rows() as usize {
            return None;
        }
        most = most.max(values);
    }
    let own = have_own_values(metadata.row_groups(), column);
    (groups > 0).then_some(if own { most * groups } else { most })
}

/// Whether each row group covers a small part of the range of a column.
fn have_own_values(groups: &[RowGroupMetaData], column: usize) -> bool {
    let ranges: Option<Vec<(i64, i64)>> = groups.iter().map(|group| range(group.column(column))).collect();
    let Some(ranges) = ranges else { return false };
    let (Some(min), Some(max)) = (ranges.iter().map(|r| r.0).min(), ranges.iter().map(|r| r.1).max()) else {
        return false;
    };
    let covered: f64 = ranges.iter().map(|(min, max)| max.saturating_sub(*min) as f64).sum();
    // Row groups that cover the range twice might come in equal pairs.
    groups.len() > 2 && covered < 2.0 * max.saturating_sub(min) as f64
}

/// The minimum and the maximum of integers, if the footer has them.
pub(super) fn range(chunk: &ColumnChunkMetaData) -> Option<(i64, i64)> {
    match chunk.statistics()? {
        ColumnStatistics::Int32(s) => Some((i64::from(*s.min_opt()?), i64::from(*s.max_opt()?))),
        ColumnStatistics::Int64(s) => Some((*s.min_opt()?, *s.max_opt()?)),
        _ => None,
    }
}

/// How many values the dictionary of a column chunk has, if it has a short one.
fn dictionary_length(file: &File, chunk: &ColumnChunkMetaData, rows: usize) -> Option<usize> {
    let begin = chunk.dictionary_page_offset()?;
    if chunk.data_page_offset() - begin > MAX_DICTIONARY {
        return None;
    }
    let input = Arc::new(file.location.open_local().ok()??);
    let mut pages = SerializedPageReader::new(input, chunk, rows, None).ok()?;
    match pages.get_next_page().ok()?? {
        Page::DictionaryPage { num_values, .. } => Some(num_values as usize),
        _ => None,
    }
}
