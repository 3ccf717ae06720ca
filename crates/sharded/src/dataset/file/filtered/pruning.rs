//! What the footer of a Parquet file says of a row group: whether a row in it can satisfy a predicate.

use super::super::parquet::File;
use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::physical_expr::conjunction;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::RowGroupMetaData;
use std::collections::HashSet;
use std::sync::Arc;

use crate::dataset::Predicate;

/// The predicate as statistics can answer it; none if they cannot.
pub(super) struct Pruning(Option<Arc<PruningPredicate>>);

impl Pruning {
    pub fn new(file: &File, terms: &Predicate) -> Pruning {
        let all = conjunction(terms.required.iter().chain(&terms.hints).cloned());
        Pruning(PruningPredicateBuilder::new().with_file_schema(file.metadata.schema().clone()).build(all))
    }

    /// Whether the statistics of a row group allow wanted rows.
    pub fn may_be_wanted(&self, file: &File, group: usize) -> Result<bool> {
        let Some(predicate) = &self.0 else { return Ok(true) };
        Ok(predicate.prune(&Group { file, group })?.first().copied().unwrap_or(true))
    }
}

struct Group<'a> {
    file: &'a File,
    group: usize,
}

impl Group<'_> {
    fn converter(&self, column: &Column) -> Option<StatisticsConverter<'_>> {
        let metadata = &self.file.metadata;
        StatisticsConverter::try_new(&column.name, metadata.schema(), metadata.parquet_schema()).ok()
    }

    fn row_group(&self) -> &RowGroupMetaData {
        self.file.metadata.metadata().row_group(self.group)
    }
}

impl PruningStatistics for Group<'_> {
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
