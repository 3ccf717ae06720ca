//! A dataset in memory. Cutting it into another number of shards moves no rows.

use super::split::contiguous;
use super::{Dataset, Reader, Shard};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, plan_err};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::{Source, SourceInfo};
use whimbrel_temporal::KnownOrder;

/// Record batches in memory, in shards.
#[derive(Clone)]
pub struct MemoryDataset {
    schema: SchemaRef,
    shards: Vec<Vec<RecordBatch>>,
    groups: usize,
    /// What is known of the order of each shard by each column that somebody asked about.
    orders: Arc<Mutex<HashMap<(usize, usize), KnownOrder>>>,
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
        Ok(MemoryDataset { schema, shards, groups: 1, orders: Default::default() })
    }

    /// The same rows in the same order, in so many contiguous shards. Nothing is copied.
    pub fn with_shards(&self, shards: usize) -> Result<MemoryDataset> {
        if shards == 0 {
            return plan_err!("a dataset has at least one shard");
        }
        let batches: Vec<&RecordBatch> = self.shards.iter().flatten().collect();
        let lengths: Vec<usize> = batches.iter().map(|b| b.num_rows()).collect();
        let shards = contiguous(&lengths, shards)
            .into_iter()
            .map(|run| run.into_iter().map(|p| batches[p.piece].slice(p.offset, p.length)).collect())
            .collect();
        let (schema, groups) = (self.schema.clone(), self.groups);
        Ok(MemoryDataset { schema, shards, groups, orders: Default::default() })
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
    pub fn shards(&self) -> &[Vec<RecordBatch>] {
        &self.shards
    }

    /// All rows, shard after shard.
    pub fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        self.shards.iter().flatten()
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.batches().map(|b| b.num_rows()).sum()
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
        let schema = super::project(&self.schema, projection)?;
        let batches = self.shards[shard]
            .iter()
            .map(|batch| {
                let columns = match projection {
                    Some(columns) => batch.project(columns)?,
                    None => batch.clone(),
                };
                super::conform(columns, &schema)
            })
            .collect::<Result<VecDeque<_>>>()?;
        Ok(Shard::Reader(Box::new(MemoryReader { batches, offset: 0, batch_rows })))
    }
}

/// Hands out slices.
struct MemoryReader {
    batches: VecDeque<RecordBatch>,
    /// How many rows of the first batch have been handed out.
    offset: usize,
    batch_rows: usize,
}

impl Reader for MemoryReader {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.batches.front() {
            let length = (batch.num_rows() - self.offset).min(self.batch_rows);
            let slice = batch.slice(self.offset, length);
            self.offset += length;
            if self.offset == batch.num_rows() {
                self.batches.pop_front();
                self.offset = 0;
            }
            if length > 0 {
                return Ok(Some(slice));
            }
        }
        Ok(None)
    }
}
