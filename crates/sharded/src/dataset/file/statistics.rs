//! Statistics of files: those in the footers of Parquet files, and the distinct counts of their dictionaries.

use super::Unit;
use super::parallel::in_parallel;
use super::parquet::File;
use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics as ColumnStatistics;
use std::ops::Range;
use std::sync::Arc;

/// A longer dictionary is not read: its column has many values.
const MAX_DICTIONARY: i64 = 1 << 18;

/// How many row groups are sampled for dictionaries.
const SAMPLED_ROW_GROUPS: usize = 3;

/// About how many bytes a value takes in a file that does not say how many rows it has.
const BYTES_OF_A_VALUE: usize = 8;

/// The statistics of all rows of these units. If a file is not Parquet, only about how many there are.
pub(super) fn of(units: &[Unit], schema: &SchemaRef) -> Statistics {
    let mut files: Vec<&Arc<File>> = Vec::new();
    for unit in units {
        let Unit::Parquet { file, .. } = unit else {
            let num_rows = rows_by_size(units, schema).map_or(Precision::Absent, Precision::Inexact);
            return Statistics { num_rows, ..Statistics::new_unknown(schema) };
        };
        if !files.last().is_some_and(|last| Arc::ptr_eq(last, file)) {
            files.push(file);
        }
    }
    // Of objects, dictionaries have to be fetched.
    if files.iter().any(|file| !file.is_local()) {
        in_parallel(&files, |file| _ = file.statistics.get_or_init(|| of_file(file, schema)));
    }
    let statistics = files.iter().map(|file| file.statistics.get_or_init(|| of_file(file, schema)));
    Statistics::try_merge_iter(statistics, schema).unwrap_or_else(|_| Statistics::new_unknown(schema))
}

/// About how many rows files have, by their sizes; none if a size is not known.
fn rows_by_size(units: &[Unit], schema: &SchemaRef) -> Option<usize> {
    let (mut rows, mut last) = (0, None);
    for unit in units {
        match unit {
            Unit::Parquet { .. } | Unit::Unopened { .. } => rows += unit.rows(),
            // A file may have several units.
            _ if last.replace(unit.location()).is_some_and(|last| last.is_same(unit.location())) => {}
            _ => rows += unit.location().size()? as usize / (BYTES_OF_A_VALUE * schema.fields().len().max(1)),
        }
    }
    Some(rows)
}

/// The statistics in the footer of a file, with distinct counts.
fn of_file(file: &File, schema: &SchemaRef) -> Statistics {
    let metadata = file.metadata.metadata();
    let Ok(mut statistics) = DFParquetMetadata::statistics_from_parquet_metadata(metadata, schema) else {
        return Statistics::new_unknown(schema);
    };
    // With nested columns, leaves and fields have different numbers.
    if metadata.file_metadata().schema_descr().num_columns() == statistics.column_statistics.len() {
        for (column, values) in statistics.column_statistics.iter_mut().zip(distinct_counts(file)) {
            if let Some(values) = values {
                column.distinct_count = Precision::Inexact(values);
            }
        }
    }
    statistics
}

/// The estimated distinct count of each column, where its dictionaries tell.
fn distinct_counts(file: &File) -> Vec<Option<usize>> {
    let metadata = file.metadata.metadata();
    let columns = metadata.file_metadata().schema_descr().num_columns();
    if file.is_local() {
        let lengths = |column: usize| {
            let groups = sampled(metadata.num_row_groups()).map(|group| metadata.row_group(group));
            groups.map(move |group| (group, length_in_file(file, group, column)))
        };
        return (0..columns).map(|column| distinct_count(file, column, lengths(column))).collect();
    }
    if metadata.num_row_groups() == 0 {
        return vec![None; columns];
    }
    // One row group of an object, for each is a request more.
    let lengths = lengths_in_object(file).into_iter().map(|length| [(metadata.row_group(0), length)]);
    lengths.enumerate().map(|(column, length)| distinct_count(file, column, length)).collect()
}

/// The row groups whose dictionaries are read.
fn sampled(groups: usize) -> impl Iterator<Item = usize> {
    (0..groups).step_by(groups.div_ceil(SAMPLED_ROW_GROUPS).max(1))
}

/// The estimated distinct count of a column, from the lengths of the dictionaries of some row groups: the
/// largest, if row groups share their values; the largest for each row group, if each has values of its own.
fn distinct_count<'a>(
    file: &File,
    column: usize,
    lengths: impl IntoIterator<Item = (&'a RowGroupMetaData, Option<usize>)>,
) -> Option<usize> {
    let metadata = file.metadata.metadata();
    let groups = metadata.num_row_groups();
    let mut most = None;
    for (group, values) in lengths {
        let values = values?;
        if groups > 1 && values * 2 > group.num_rows() as usize {
            return None;
        }
        most = most.max(Some(values));
    }
    let own = have_own_values(metadata.row_groups(), column);
    most.map(|most| if own { most * groups } else { most })
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

/// Where the dictionary of a column chunk is, if it has a short one.
fn dictionary(chunk: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let (begin, end) = (chunk.dictionary_page_offset()?, chunk.data_page_offset());
    let is_short = begin >= 0 && begin < end && end - begin <= MAX_DICTIONARY;
    is_short.then_some(begin as u64..end as u64)
}

/// How many values the dictionary of a column has in a row group of a local file, if it has a short one.
fn length_in_file(file: &File, group: &RowGroupMetaData, column: usize) -> Option<usize> {
    let chunk = group.column(column);
    dictionary(chunk)?;
    let input = Arc::new(file.location.open_local().ok()??);
    dictionary_length(input, chunk, group.num_rows() as usize)
}

/// How many values the dictionary of each column has in the first row group of an object. All are fetched at
/// once.
fn lengths_in_object(file: &File) -> Vec<Option<usize>> {
    let group = file.metadata.metadata().row_group(0);
    let places: Vec<Option<Range<u64>>> = group.columns().iter().map(dictionary).collect();
    let ranges: Vec<Range<u64>> = places.iter().flatten().cloned().collect();
    // Planning does without them.
    let Ok(parts) = file.location.fetch_all(&ranges) else { return vec![None; places.len()] };
    let mut parts = parts.into_iter();
    let length = |(place, chunk): (Option<Range<u64>>, &ColumnChunkMetaData)| {
        let part = Part { start: place?.start, bytes: parts.next()? };
        dictionary_length(Arc::new(part), chunk, group.num_rows() as usize)
    };
    places.into_iter().zip(group.columns()).map(length).collect()
}

/// How many values the dictionary of a column chunk has.
fn dictionary_length<R: ChunkReader + 'static>(
    input: Arc<R>,
    chunk: &ColumnChunkMetaData,
    rows: usize,
) -> Option<usize> {
    let mut pages = SerializedPageReader::new(input, chunk, rows, None).ok()?;
    match pages.get_next_page().ok()?? {
        Page::DictionaryPage { num_values, .. } => Some(num_values as usize),
        _ => None,
    }
}

/// Some bytes of a file, from an offset on.
struct Part {
    start: u64,
    bytes: Bytes,
}

impl Part {
    fn from(&self, offset: u64) -> ParquetResult<Bytes> {
        let skipped = offset.checked_sub(self.start).and_then(|skipped| usize::try_from(skipped).ok());
        match skipped.filter(|skipped| *skipped <= self.bytes.len()) {
            Some(skipped) => Ok(self.bytes.slice(skipped..)),
            None => Err(ParquetError::EOF(format!("byte {offset} was not fetched"))),
        }
    }
}

impl Length for Part {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Part {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Reader<Bytes>> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.from(start)?;
        match length <= bytes.len() {
            true => Ok(bytes.slice(..length)),
            false => Err(ParquetError::EOF(format!("{length} bytes from {start} on were not fetched"))),
        }
    }
}
