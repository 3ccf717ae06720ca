//! Datasets: where rows come from.
//!
//! A dataset has a schema and a number of shards. A plan sees it as a [`Source`]; a runtime opens each of its
//! shards once. A shard is either read on the thread of its channel, or it is a queue that a sender fills.

mod file;
mod frozen;
mod live;
mod memory;
mod predicate;
mod series;
mod split;

pub use file::{FileDataset, FileFormat, ReadOptions};
pub use frozen::{freeze, thaw};
pub use live::{LiveDataset, LiveSender, Patience};
pub use memory::MemoryDataset;
pub use predicate::Predicate;

use crossbeam_channel::Receiver;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Result, internal_err, plan_err};
use std::any::Any;
use whimbrel_plan::{Series, Source};
use whimbrel_temporal::{Message, Sortedness};

/// Reads the rows of a shard, batch by batch.
pub trait Reader: Send {
    /// The next rows; none at the end.
    ///
    /// # Errors
    /// `Execution` if the rows cannot be read.
    fn next(&mut self) -> Result<Option<RecordBatch>>;
}

/// An open shard.
pub enum Shard {
    /// The channel reads it.
    Reader(Box<dyn Reader>),
    /// A sender fills it. Its batches have all columns; its punctuations tell the progress of time.
    Queue(Receiver<Message>),
}

/// A source that a runtime can read.
pub trait Dataset: Source {
    /// The number of rows, if it is known before they are read.
    fn rows(&self) -> Option<u64>;

    /// The known order of a shard by a column. It is kept from query to query, so the rows must never change.
    fn order(&self, _shard: usize, _column: usize) -> Option<Sortedness> {
        None
    }

    /// Opens a shard. A reader gives the columns of `projection`, in this order, in batches of at most
    /// `batch_rows` rows.
    ///
    /// # Errors
    /// If the shard cannot be opened.
    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard>;

    /// Whether the dataset applies predicates: [`open_where`](Dataset::open_where).
    fn filters(&self) -> bool {
        false
    }

    /// Opens a shard with a predicate over the columns of the projection. Rows that do not satisfy it do not
    /// come out.
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

/// The dataset of a source in a plan.
///
/// # Errors
/// `Plan` if the source is none of ours.
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

/// The schema of a projection.
fn project(schema: &SchemaRef, projection: Option<&[usize]>) -> Result<SchemaRef> {
    Ok(match projection {
        Some(columns) => SchemaRef::new(schema.project(columns)?),
        None => SchemaRef::clone(schema),
    })
}

/// The batch under a schema that differs in nullability and metadata only.
///
/// # Errors
/// `ArrowError` if a column has another type, or a null where the schema allows none.
pub(crate) fn conform(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &rows)?)
}
