//! Where rows come from.
//!
//! A dataset has a schema and a number of shards; the plan sees it as a [`Source`], a runtime opens each
//! shard of it once. A shard is either read, on the thread of the channel that wants it, or it is a queue
//! that somebody else fills.

mod file;
mod live;
mod memory;
mod predicate;
mod series;
mod split;

pub use file::{FileDataset, FileFormat, ReadOptions};
pub use live::{LiveDataset, LiveSender, Patience};
pub use memory::MemoryDataset;
pub use predicate::Predicate;

use crossbeam_channel::Receiver;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Result, internal_err, plan_err};
use std::any::Any;
use whimbrel_plan::{Series, Source};
use whimbrel_temporal::{KnownOrder, Message};

/// Rows that come when they are asked for.
pub trait Reader: Send {
    /// The next rows, or `None` at the end.
    fn next(&mut self) -> Result<Option<RecordBatch>>;
}

/// An open shard.
pub enum Shard {
    /// To be read.
    Reader(Box<dyn Reader>),
    /// Filled by somebody else, who knows of no projection. Its batches are rows of a relation with all
    /// columns, its punctuations news of time.
    Queue(Receiver<Message>),
}

/// A source that can be read.
pub trait Dataset: Source {
    /// How many rows there are in all, where that is known before they are read.
    fn rows(&self) -> Option<u64>;

    /// What is known of the order of a shard by a column, if the rows never change: kept from query to query.
    fn order(&self, _shard: usize, _column: usize) -> Option<KnownOrder> {
        None
    }

    /// Opens a shard. A reader gives the columns of `projection`, in that order, in batches of at most
    /// `batch_rows` rows.
    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard>;

    /// Whether [`open_where`](Dataset::open_where) works.
    fn filters(&self) -> bool {
        false
    }

    /// Opens a shard of which only the rows are wanted that satisfy the predicate, whose columns are numbered as
    /// those of the projection.
    ///
    /// # Errors
    /// `Internal` if the dataset cannot filter.
    fn open_where(
        &self,
        _shard: usize,
        _projection: Option<&[usize]>,
        _batch_rows: usize,
        _predicate: Predicate,
    ) -> Result<Shard> {
        internal_err!("{} cannot filter its rows", self.describe())
    }
}

/// The dataset behind a plan's source.
pub fn dataset(source: &dyn Source) -> Result<&dyn Dataset> {
    let any: &dyn Any = source;
    if let Some(memory) = any.downcast_ref::<MemoryDataset>() {
        return Ok(memory);
    }
    if let Some(file) = any.downcast_ref::<FileDataset>() {
        return Ok(file);
    }
    if let Some(series) = any.downcast_ref::<Series>() {
        return Ok(series);
    }
    if let Some(live) = any.downcast_ref::<LiveDataset>() {
        return Ok(live);
    }
    plan_err!("{} cannot be read by this runtime", source.describe())
}

/// The schema with only these columns.
fn project(schema: &SchemaRef, projection: Option<&[usize]>) -> Result<SchemaRef> {
    Ok(match projection {
        Some(columns) => SchemaRef::new(schema.project(columns)?),
        None => SchemaRef::clone(schema),
    })
}

/// The same columns under a schema that may differ in what it says of nulls and in metadata.
pub(crate) fn conform(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &rows)?)
}
