//! Row group pruning: whether the statistics in the footer allow that a row satisfies a predicate.

use super::super::parquet::File;
use crate::dataset::Predicate;
use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::physical_expr::conjunction;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::RowGroupMetaData;
use std::collections::HashSet;
use std::sync::Arc;

/// The predicate over statistics; none if they cannot decide it.
pub(super) struct Pruning(Option<Arc<PruningPredicate>>);

impl Pruning {
    /// The pruning predicate of a predicate over the columns of a file.
    pub fn new(file: &File, predicate: &Predicate) -> Pruning {
        let all = conjunction(predicate.required.iter().chain(&predicate.hints).cloned());
        Pruning(PruningPredicateBuilder::new().with_file_schema(file.metadata.schema().clone()).build(all))
    }

    /// Whether a row group may have a row that satisfies the predicate.
    ///
    /// # Errors
    /// If the statistics cannot be compared.
    pub fn may_match(&self, file: &File, row_group: usize) -> Result<bool> {
        let Some(predicate) = &self.0 else { return Ok(true) };
        Ok(predicate.prune(&RowGroupStatistics { file, row_group })?.first().copied().unwrap_or(true))
    }
}

/// The statistics of one row group.
struct RowGroupStatistics<'a> {
    file: &'a File,
    row_group: usize,
}

impl RowGroupStatistics<'_> {
    /// The statistics of a column as arrays.
    fn converter(&self, column: &Column) -> Option<StatisticsConverter<'_>> {
        let metadata = &self.file.metadata;
        StatisticsConverter::try_new(&column.name, metadata.schema(), metadata.parquet_schema()).ok()
    }

    /// The metadata of the row group.
    fn row_group(&self) -> &RowGroupMetaData {
        self.file.metadata.metadata().row_group(self.row_group)
    }
}

impl PruningStatistics for RowGroupStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.converter(column)?.row_group_mins([self.row_group()]).ok()
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.converter(column)?.row_group_maxes([self.row_group()]).ok()
    }

    fn num_containers(&self) -> usize {
        1
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = self.converter(column)?.row_group_null_counts([self.row_group()]).ok()?;
        Some(Arc::new(counts))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(vec![self.row_group().num_rows() as u64])))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
