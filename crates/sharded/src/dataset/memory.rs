//! Datasets in memory. Another number of shards moves no rows.

use super::split::contiguous;
use super::{Dataset, Reader, Shard};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, plan_err};
use datafusion::physical_plan::common::compute_record_batch_statistics;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use whimbrel_plan::{Source, SourceInfo};
use whimbrel_temporal::{Key, Sortedness};

/// Record batches in memory, in shards.
///
/// ```
/// use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use whimbrel_sharded::dataset::MemoryDataset;
///
/// let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
/// # use std::sync::Arc;
/// let rows = RecordBatch::try_from_iter([("n", column)])?;
/// let dataset = MemoryDataset::new(rows.schema(), vec![vec![rows]])?;
/// let halves = dataset.with_shards(2)?;
/// assert_eq!(halves.shards()[0][0].num_rows(), 1);
/// assert_eq!(halves.num_rows(), 3);
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Clone)]
pub struct MemoryDataset {
    schema: SchemaRef,
    shards: Vec<Arc<[RecordBatch]>>,
    rows: usize,
    /// How many machines the shards are divided among.
    machines: usize,
    /// The known orders: by shard and column.
    orders: Arc<Mutex<HashMap<(usize, usize), Sortedness>>>,
    /// Computed on first use.
    statistics: Arc<OnceLock<Arc<Statistics>>>,
}

impl MemoryDataset {
    /// A dataset of these shards.
    ///
    /// # Errors
    /// `Plan` if there are no shards, or a batch has other columns than the schema.
    pub fn new(schema: SchemaRef, shards: Vec<Vec<RecordBatch>>) -> Result<MemoryDataset> {
        if shards.is_empty() {
            return plan_err!("a dataset has at least one shard");
        }
        for batch in shards.iter().flatten() {
            check_types(&schema, batch)?;
        }
        Ok(MemoryDataset::of(schema, shards, 1, Arc::default()))
    }

    /// A dataset of batches that were checked.
    fn of(
        schema: SchemaRef,
        shards: Vec<Vec<RecordBatch>>,
        machines: usize,
        statistics: Arc<OnceLock<Arc<Statistics>>>,
    ) -> MemoryDataset {
        let rows = shards.iter().flatten().map(RecordBatch::num_rows).sum();
        let shards = shards.into_iter().map(Arc::from).collect();
        MemoryDataset { schema, shards, rows, machines, orders: Arc::default(), statistics }
    }

    /// The same rows in the same order, in so many contiguous shards. No row is copied.
    ///
    /// # Errors
    /// `Plan` if there are no shards.
    pub fn with_shards(&self, shards: usize) -> Result<MemoryDataset> {
        if shards == 0 {
            return plan_err!("a dataset has at least one shard");
        }
        let batches: Vec<&RecordBatch> = self.batches().collect();
        let lengths: Vec<usize> = batches.iter().map(|b| b.num_rows()).collect();
        let shards = contiguous(&lengths, shards)
            .into_iter()
            .map(|run| run.into_iter().map(|p| batches[p.piece].slice(p.offset, p.length)).collect())
            .collect();
        let statistics = Arc::clone(&self.statistics);
        Ok(MemoryDataset::of(self.schema.clone(), shards, self.machines, statistics))
    }

    /// The same shards, divided evenly among so many machines, for exchanges of local scope.
    ///
    /// # Errors
    /// `Plan` if they cannot be divided evenly.
    pub fn with_machines(mut self, machines: usize) -> Result<MemoryDataset> {
        if machines == 0 || !self.shards.len().is_multiple_of(machines) {
            return plan_err!(
                "{} shards cannot be divided evenly among {machines} machines",
                self.shards.len()
            );
        }
        self.machines = machines;
        Ok(self)
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The shards.
    pub fn shards(&self) -> &[Arc<[RecordBatch]>] {
        &self.shards
    }

    /// All rows, shard after shard.
    pub fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.rows
    }
}

/// Checks that a batch has the columns of a schema.
///
/// # Errors
/// `Plan` if a name or a type differs.
pub(super) fn check_types(schema: &SchemaRef, batch: &RecordBatch) -> Result<()> {
    let found = batch.schema();
    if found.fields().len() != schema.fields().len() {
        return plan_err!(
            "a batch of {} columns in a dataset of {}",
            found.fields().len(),
            schema.fields().len()
        );
    }
    for (expected, found) in schema.fields().iter().zip(found.fields()) {
        if expected.name() != found.name() || expected.data_type() != found.data_type() {
            return plan_err!(
                "a batch has column `{}` of type {} where the dataset has `{}` of type {}",
                found.name(),
                found.data_type(),
                expected.name(),
                expected.data_type()
            );
        }
    }
    Ok(())
}

impl std::fmt::Debug for MemoryDataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Source for MemoryDataset {
    fn info(&self) -> SourceInfo {
        SourceInfo {
            schema: self.schema.clone(),
            bounded: true,
            shards: self.shards.len(),
            groups: self.machines,
        }
    }

    fn describe(&self) -> String {
        format!("memory, {} rows", self.num_rows())
    }

    fn statistics(&self) -> Arc<Statistics> {
        Arc::clone(self.statistics.get_or_init(|| {
            let batches: Vec<Vec<RecordBatch>> = vec![self.batches().cloned().collect()];
            let statistics = compute_record_batch_statistics(&batches, &self.schema, None);
            Arc::new(with_distinct_counts(statistics, self.batches(), &self.schema))
        }))
    }

    /// The values of rows at equal distances.
    fn sample(&self, column: usize) -> Option<ArrayRef> {
        let distance = self.rows.div_ceil(SAMPLE_ROWS).max(1);
        let (mut values, mut next) = (Vec::new(), 0);
        for batch in self.batches() {
            while next < batch.num_rows() {
                values.push(batch.column(column).slice(next, 1));
                next += distance;
            }
            next -= batch.num_rows();
        }
        let values: Vec<&dyn Array> = values.iter().map(|value| value.as_ref()).collect();
        concat(&values).ok()
    }

    fn with_shards(&self, shards: usize) -> Option<Arc<dyn Source>> {
        MemoryDataset::with_shards(self, shards).ok().map(|cut| Arc::new(cut) as Arc<dyn Source>)
    }
}

/// How many rows are sampled to estimate distinct counts, and for a [sample](Source::sample).
const SAMPLE_ROWS: usize = 4096;

/// Adds the distinct count of each column, estimated from the first rows of every batch.
fn with_distinct_counts<'a>(
    mut statistics: Statistics,
    batches: impl Iterator<Item = &'a RecordBatch>,
    schema: &SchemaRef,
) -> Statistics {
    let batches: Vec<&RecordBatch> = batches.filter(|b| b.num_rows() > 0).collect();
    let rows: usize = batches.iter().map(|b| b.num_rows()).sum();
    let each = SAMPLE_ROWS.div_ceil(batches.len().max(1));
    for (index, column) in statistics.column_statistics.iter_mut().enumerate() {
        let parts: Vec<_> =
            batches.iter().map(|b| b.column(index).slice(0, b.num_rows().min(each))).collect();
        let parts: Vec<&dyn Array> = parts.iter().map(|p| p.as_ref()).collect();
        let Ok(sample) = concat(&parts) else { continue };
        let sample = RecordBatch::try_from_iter([(schema.field(index).name(), sample)]);
        let Some(key) = sample.ok().and_then(|sample| Key::of(&sample, &[0]).ok()) else { continue };
        let distinct = key.hashes().iter().collect::<HashSet<_>>().len();
        column.distinct_count = Precision::Inexact(scale_distinct_count(distinct, key.hashes().len(), rows));
    }
    statistics
}

/// The distinct count of all rows, given that of a sample. A column of few values has no others; one that is
/// nearly unique stays so.
fn scale_distinct_count(distinct: usize, sample: usize, rows: usize) -> usize {
    match distinct * 10 > sample * 7 {
        true => (distinct as u128 * rows as u128 / sample.max(1) as u128) as usize,
        false => distinct,
    }
}

impl Dataset for MemoryDataset {
    fn rows(&self) -> Option<u64> {
        Some(self.num_rows() as u64)
    }

    fn order(&self, shard: usize, column: usize) -> Option<Sortedness> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        Some(orders.entry((shard, column)).or_default().clone())
    }

    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard> {
        Ok(Shard::Reader(Box::new(MemoryReader {
            schema: super::project(&self.schema, projection)?,
            batches: Arc::clone(&self.shards[shard]),
            columns: projection.map(<[usize]>::to_vec),
            next: 0,
            offset: 0,
            batch_rows,
            passed: 0,
            rows: self.shards[shard].iter().map(RecordBatch::num_rows).sum(),
        })))
    }
}

/// Reads a shard in slices of its batches.
struct MemoryReader {
    schema: SchemaRef,
    batches: Arc<[RecordBatch]>,
    /// The projection; none: all columns.
    columns: Option<Vec<usize>>,
    /// The current batch.
    next: usize,
    /// The next row of it.
    offset: usize,
    batch_rows: usize,
    /// How many rows were read, of how many.
    passed: usize,
    rows: usize,
}

impl Reader for MemoryReader {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.batches.get(self.next) {
            let offset = self.offset;
            let length = (batch.num_rows() - offset).min(self.batch_rows);
            self.offset += length;
            if self.offset == batch.num_rows() {
                (self.next, self.offset) = (self.next + 1, 0);
            }
            if length > 0 {
                self.passed += length;
                return Ok(Some(self.slice(batch, offset, length)?));
            }
        }
        Ok(None)
    }

    fn share(&self) -> f64 {
        self.passed as f64 / self.rows.max(1) as f64
    }
}

impl MemoryReader {
    /// Rows of a batch under the schema of the dataset, which may differ in nullability and metadata.
    fn slice(&self, batch: &RecordBatch, offset: usize, length: usize) -> Result<RecordBatch> {
        let slice = |column: &ArrayRef| match length == batch.num_rows() {
            true => Arc::clone(column),
            false => column.slice(offset, length),
        };
        let columns = match &self.columns {
            Some(columns) => columns.iter().map(|index| slice(batch.column(*index))).collect(),
            None => batch.columns().iter().map(slice).collect(),
        };
        let rows = RecordBatchOptions::new().with_row_count(Some(length));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?)
    }
}
