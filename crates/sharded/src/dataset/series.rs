//! Series of equidistant numbers, generated as they are read.

use super::{Dataset, Reader, Shard, project};
use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use std::ops::Range;
use std::sync::Arc;
use whimbrel_plan::Series;

impl Dataset for Series {
    fn rows(&self) -> Option<u64> {
        Some(self.count())
    }

    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard> {
        let schema = project(&whimbrel_plan::Source::info(self).schema, projection)?;
        let left = self.places(shard);
        let all = left.end - left.start;
        Ok(Shard::Reader(Box::new(SeriesReader { series: self.clone(), schema, left, all, batch_rows })))
    }
}

/// Generates the numbers of a shard.
struct SeriesReader {
    series: Series,
    schema: SchemaRef,
    left: Range<u64>,
    /// How many there are in the shard.
    all: u64,
    batch_rows: usize,
}

impl Reader for SeriesReader {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let end = self.left.end.min(self.left.start.saturating_add(self.batch_rows.max(1) as u64));
        let indices = std::mem::replace(&mut self.left.start, end)..end;
        if indices.is_empty() {
            return Ok(None);
        }
        let rows = (indices.end - indices.start) as usize;
        let numbers: ArrayRef =
            Arc::new(Int64Array::from_iter_values(indices.map(|at| self.series.number(at))));
        let columns = vec![numbers; self.schema.fields().len()];
        let rows = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), columns, &rows)?))
    }

    fn share(&self) -> f64 {
        1.0 - (self.left.end - self.left.start) as f64 / self.all.max(1) as f64
    }
}
