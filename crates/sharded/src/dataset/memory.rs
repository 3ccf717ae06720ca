//! A dataset in memory. Cutting it into another number of shards moves no rows.

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
use whimbrel_temporal::{Key, KnownOrder};

/// Record batches in memory, in shards.
#[derive(Clone)]
pub struct MemoryDataset {
    schema: SchemaRef,
    shards: Vec<Arc<[RecordBatch]>>,
    rows: usize,
    groups: usize,
    /// What is known of the order of each shard by each column that somebody asked about.
    orders: Arc<Mutex<HashMap<(usize, usize), KnownOrder>>>,
    /// Worked out when somebody asks first.
    statistics: Arc<OnceLock<Arc<Statistics>>>,
}

impl MemoryDataset {
    /// A dataset of these shards. Every batch has to have the schema.
    pub fn new(schema: SchemaRef, shards: Vec<Vec<RecordBatch>>) -> Result<MemoryDataset> {
        if shards.is_empty() {
            return plan_err!("a dataset has at least one shard");
        }
        for batch in shards.iter().flatten() {
            check_types(&schema, batch)?;
        }
        Ok(MemoryDataset::of(schema, shards, 1, Arc::default()))
    }

    fn of(
        schema: SchemaRef,
        shards: Vec<Vec<RecordBatch>>,
        groups: usize,
        statistics: Arc<OnceLock<Arc<Statistics>>>,
    ) -> MemoryDataset {
        let rows = shards.iter().flatten().map(RecordBatch::num_rows).sum();
        let shards = shards.into_iter().map(Arc::from).collect();
        MemoryDataset { schema, shards, rows, groups, orders: Arc::default(), statistics }
    }

    /// The same rows in the same order, in so many contiguous shards. Nothing is copied.
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
        Ok(MemoryDataset::of(self.schema.clone(), shards, self.groups, statistics))
    }

    /// The same shards as those of so many machines, for movements of local scope.
    pub fn with_groups(mut self, groups: usize) -> Result<MemoryDataset> {
        if groups == 0 || !self.shards.len().is_multiple_of(groups) {
            return plan_err!("{} shards cannot be divided evenly into {groups} groups", self.shards.len());
        }
        self.groups = groups;
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

pub(super) fn check_types(schema: &SchemaRef, batch: &RecordBatch) -> Result<()> {
    let found = batch.schema();
    if found.fields().len() != schema.fields().len() {
        return plan_err!(
            "a batch of {} columns in a dataset of {}",
            found.fields().len(),
            schema.fields().len()
        );
    }
    for (want, have) in schema.fields().iter().zip(found.fields()) {
        if want.name() != have.name() || want.data_type() != have.data_type() {
            return plan_err!(
                "a batch has column `{}` of type {} where the dataset has `{}` of type {}",
                have.name(),
                have.data_type(),
                want.name(),
                want.data_type()
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
            groups: self.groups,
        }
    }

    fn describe(&self) -> String {
        format!("memory, {} rows", self.num_rows())
    }

    fn statistics(&self) -> Arc<Statistics> {
        Arc::clone(self.statistics.get_or_init(|| {
            let batches: Vec<Vec<RecordBatch>> = vec![self.batches().cloned().collect()];
            let known = compute_record_batch_statistics(&batches, &self.schema, None);
            Arc::new(sampled(known, self.batches(), &self.schema))
        }))
    }

    fn with_shards(&self, shards: usize) -> Option<Arc<dyn Source>> {
        MemoryDataset::with_shards(self, shards).ok().map(|cut| Arc::new(cut) as Arc<dyn Source>)
    }
}

/// How many rows are looked at to estimate what cannot be known from sizes.
const SAMPLE: usize = 4096;

/// The statistics with the range of each column, and about how many different values it has: as far as the first
/// rows of every batch tell.
fn sampled<'a>(
    mut known: Statistics,
    batches: impl Iterator<Item = &'a RecordBatch>,
    schema: &SchemaRef,
) -> Statistics {
    let batches: Vec<&RecordBatch> = batches.filter(|b| b.num_rows() > 0).collect();
    let rows: usize = batches.iter().map(|b| b.num_rows()).sum();
    let each = SAMPLE.div_ceil(batches.len().max(1));
    for (place, column) in known.column_statistics.iter_mut().enumerate() {
        let parts: Vec<_> =
            batches.iter().map(|b| b.column(place).slice(0, b.num_rows().min(each))).collect();
        let parts: Vec<&dyn Array> = parts.iter().map(|p| p.as_ref()).collect();
        let Ok(sample) = concat(&parts) else { continue };
        let sample = RecordBatch::try_from_iter([(schema.field(place).name(), sample)]);
        let Some(key) = sample.ok().and_then(|sample| Key::of(&sample, &[0]).ok()) else { continue };
        let different = key.hashes().iter().collect::<HashSet<_>>().len();
        column.distinct_count = Precision::Inexact(scaled(different, key.hashes().len(), rows));
    }
    known
}

/// How many different values all rows have, if a sample has so many: few values are all there are, values that are
/// nearly all different go on being so.
fn scaled(different: usize, sample: usize, rows: usize) -> usize {
    match different * 10 > sample * 7 {
        true => (different as u128 * rows as u128 / sample.max(1) as u128) as usize,
        false => different,
    }
}

impl Dataset for MemoryDataset {
    fn rows(&self) -> Option<u64> {
        Some(self.num_rows() as u64)
    }

    fn order(&self, shard: usize, column: usize) -> Option<KnownOrder> {
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
        })))
    }
}

/// Hands out slices.
struct MemoryReader {
    schema: SchemaRef,
    batches: Arc<[RecordBatch]>,
    /// Those that are wanted; none: all.
    columns: Option<Vec<usize>>,
    /// Which batch rows are taken from.
    next: usize,
    /// How many of its rows have been handed out.
    offset: usize,
    batch_rows: usize,
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
                return Ok(Some(self.slice(batch, offset, length)?));
            }
        }
        Ok(None)
    }
}

impl MemoryReader {
    /// Rows of a batch, under a schema that may differ from its own in what it says of nulls and in metadata.
    fn slice(&self, batch: &RecordBatch, offset: usize, length: usize) -> Result<RecordBatch> {
        let slice = |column: &ArrayRef| match length == batch.num_rows() {
            true => Arc::clone(column),
            false => column.slice(offset, length),
        };
        let columns = match &self.columns {
            Some(columns) => columns.iter().map(|place| slice(batch.column(*place))).collect(),
            None => batch.columns().iter().map(slice).collect(),
        };
        let rows = RecordBatchOptions::new().with_row_count(Some(length));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?)
    }
}
