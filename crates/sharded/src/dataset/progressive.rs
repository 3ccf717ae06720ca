//! A dataset whose rows tell how much of it has been read: a last column has the number of their part.
//!
//! The parts are shares of each shard, in the order in which it is read. So they follow one another in every
//! shard, and a part is over when all shards have come to the next.

use super::{Dataset, Predicate, Reader, Shard};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics, plan_err};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use std::sync::Arc;
use whimbrel_plan::{Ranges, Source, SourceInfo};

/// A dataset with the numbers of its parts.
#[derive(Debug)]
pub(crate) struct ProgressiveDataset {
    source: Arc<dyn Source>,
    schema: SchemaRef,
    parts: u32,
}

impl ProgressiveDataset {
    /// The rows of a dataset in so many parts, numbered from 0 in a column of this name.
    ///
    /// # Errors
    /// `Plan` if the source is no dataset of ours, or has such a column.
    pub fn try_new(source: Arc<dyn Source>, part: &str, parts: u32) -> Result<ProgressiveDataset> {
        super::dataset(source.as_ref())?;
        let columns = source.info().schema;
        if columns.index_of(part).is_ok() {
            return plan_err!("there is a column {part:?} already");
        }
        let number = Arc::new(Field::new(part, DataType::Int64, false));
        let fields: Vec<_> = columns.fields().iter().cloned().chain([number]).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, columns.metadata().clone()));
        Ok(ProgressiveDataset { source, schema, parts })
    }

    /// The dataset below.
    fn dataset(&self) -> Result<&dyn Dataset> {
        super::dataset(self.source.as_ref())
    }

    /// The place of the column with the numbers.
    fn part_column(&self) -> usize {
        self.schema.fields().len() - 1
    }

    /// The shard with the numbers of its parts, if they are read, and the rows that satisfy these conditions.
    fn numbered(
        &self,
        shard: Shard,
        projection: &[usize],
        required: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Shard> {
        let Shard::Reader(reader) = shard else {
            return plan_err!("{} is read as it grows, and has no parts", self.source.describe());
        };
        let schema = super::project(&self.schema, Some(projection))?;
        let is_part = projection.iter().map(|column| *column == self.part_column()).collect();
        let parts = self.parts;
        Ok(Shard::Reader(Box::new(NumberedReader { reader, schema, is_part, parts, required })))
    }

    /// All columns that are read, those of the dataset among them, and where these are in it.
    fn columns(&self, projection: Option<&[usize]>) -> (Vec<usize>, Vec<usize>) {
        let all: Vec<usize> = match projection {
            Some(columns) => columns.to_vec(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let own = all.iter().copied().filter(|column| *column != self.part_column()).collect();
        (all, own)
    }
}

impl Source for ProgressiveDataset {
    fn info(&self) -> SourceInfo {
        SourceInfo { schema: self.schema.clone(), ..self.source.info() }
    }

    fn describe(&self) -> String {
        format!("{} in {} parts", self.source.describe(), self.parts)
    }

    fn statistics(&self) -> Arc<Statistics> {
        let mut statistics = self.source.statistics().as_ref().clone();
        let integer = |value: i64| Precision::Exact(ScalarValue::Int64(Some(value)));
        statistics.column_statistics.push(ColumnStatistics {
            null_count: Precision::Exact(0),
            min_value: integer(0),
            max_value: integer(i64::from(self.parts) - 1),
            ..ColumnStatistics::new_unknown()
        });
        Arc::new(statistics)
    }

    fn ranges(&self) -> Option<&Ranges> {
        self.source.ranges()
    }
}

impl Dataset for ProgressiveDataset {
    fn rows(&self) -> Option<u64> {
        self.dataset().ok()?.rows()
    }

    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard> {
        let (all, own) = self.columns(projection);
        self.numbered(self.dataset()?.open(shard, Some(&own), batch_rows)?, &all, vec![])
    }

    /// Always, so that rows which pass do not wait for others to fill a batch with them.
    fn filters(&self) -> bool {
        true
    }

    fn open_where(
        &self,
        shard: usize,
        projection: Option<&[usize]>,
        batch_rows: usize,
        predicate: Predicate,
    ) -> Result<Shard> {
        let (all, own) = self.columns(projection);
        let dataset = self.dataset()?;
        if !dataset.filters() {
            return self.numbered(dataset.open(shard, Some(&own), batch_rows)?, &all, predicate.required);
        }
        let predicate = predicate.map_columns(|at| {
            let column = all.get(at)?;
            let place = own.iter().position(|own| own == column)?;
            Some(Column::new(self.schema.field(*column).name(), place))
        })?;
        self.numbered(dataset.open_where(shard, Some(&own), batch_rows, predicate)?, &all, vec![])
    }
}

/// Adds the number of its part to every row.
struct NumberedReader {
    reader: Box<dyn Reader>,
    schema: SchemaRef,
    /// Which columns have the number; the others are those of the reader.
    is_part: Vec<bool>,
    parts: u32,
    /// Conditions that the reader does not apply.
    required: Vec<Arc<dyn PhysicalExpr>>,
}

impl NumberedReader {
    /// The rows with the number of the part that the reader has come to.
    fn numbered(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let reached = (self.reader.share() * f64::from(self.parts)).ceil() as i64;
        let part = (reached - 1).clamp(0, i64::from(self.parts) - 1);
        let numbers: ArrayRef = Arc::new(Int64Array::from_value(part, rows.num_rows()));
        let mut own = rows.columns().iter().cloned();
        let column = |is_part: &bool| if *is_part { Some(Arc::clone(&numbers)) } else { own.next() };
        let columns = self.is_part.iter().filter_map(column).collect();
        let count = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &count)?)
    }
}

impl Reader for NumberedReader {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(rows) = self.reader.next()? {
            // A condition sees the rows that those before it let pass.
            let passed = self.required.iter().try_fold(self.numbered(&rows)?, filter)?;
            if passed.num_rows() > 0 {
                return Ok(Some(passed));
            }
        }
        Ok(None)
    }

    fn share(&self) -> f64 {
        self.reader.share()
    }
}

/// The rows that satisfy a condition.
fn filter(rows: RecordBatch, condition: &Arc<dyn PhysicalExpr>) -> Result<RecordBatch> {
    if rows.num_rows() == 0 {
        return Ok(rows);
    }
    let passes = condition.evaluate(&rows)?.into_array(rows.num_rows())?;
    Ok(filter_record_batch(&rows, passes.as_boolean())?)
}
