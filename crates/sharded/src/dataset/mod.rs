//! Datasets: where rows come from.
//!
//! A dataset has a schema and a number of shards. A plan sees it as a [`Source`]; a runtime opens each of
//! its shards once. A shard is read on the thread of its channel, whether it is there or grows, or it is
//! a queue that a sender fills.

mod file;
mod frozen;
mod idle;
mod journal;
mod live;
mod live_clock;
mod log;
mod memory;
mod object_stores;
mod predicate;
mod progressive;
mod scaled;
mod series;
mod split;

pub use file::{FileDataset, FileFormat, FollowDataset, ReadOptions};
pub use frozen::{fingerprint, freeze, thaw};
pub(crate) use idle::{IdleShards, Idleness};
pub use live::{LiveDataset, LiveQueue, LiveSender, Patience};
pub use live_clock::LiveTime;
pub use log::{Cut, Part, ReplayableShard, ShardLog, SliceReader};
pub use memory::MemoryDataset;
pub use object_stores::{OpenStores, open_stores_with};
pub use predicate::Predicate;
pub(crate) use progressive::ProgressiveDataset;
pub use scaled::ScaledDataset;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Result, Statistics, internal_err, plan_err};
use std::any::Any;
use std::sync::Arc;
use whimbrel_plan::{Location, Ranges, Series, Source, SourceInfo};
use whimbrel_temporal::Sortedness;

/// Reads the rows of a shard, batch by batch.
pub trait Reader: Send {
    /// The next rows; none at the end.
    ///
    /// # Errors
    /// `Execution` if the rows cannot be read.
    fn next(&mut self) -> Result<Option<RecordBatch>>;

    /// About which share of its rows it has passed, from 0 to 1, those that it left out included. 0 if that
    /// is not known before the end.
    fn share(&self) -> f64 {
        0.0
    }
}

/// An open shard.
pub enum Shard {
    /// The channel reads it.
    Reader(Box<dyn Reader>),
    /// A sender fills it. Its batches have all columns; its punctuations tell the progress of time.
    Queue(LiveQueue),
    /// The channel reads it as it grows.
    Log(ReplayableShard),
}

/// A source that a runtime can read.
pub trait Dataset: Source {
    /// The number of rows, if it is known before they are read.
    fn rows(&self) -> Option<u64>;

    /// The known order of a shard by a column. It is kept from query to query, so the rows must never
    /// change.
    fn order(&self, _shard: usize, _column: usize) -> Option<Sortedness> {
        None
    }

    /// Opens a shard. A reader gives the columns of `projection`, in this order, in batches of at most
    /// `batch_rows` rows.
    ///
    /// # Errors
    /// If the shard cannot be opened.
    fn open(&self, shard: usize, projection: Option<&[usize]>, batch_rows: usize) -> Result<Shard>;

    /// How many objects of an object store it is in.
    fn objects(&self) -> usize {
        0
    }

    /// How many requests to an object store read these columns of all rows, or all columns.
    fn requests(&self, _columns: Option<&[usize]>) -> usize {
        0
    }

    /// Whether the dataset applies predicates: [`open_where`](Dataset::open_where).
    fn filters(&self) -> bool {
        false
    }

    /// Opens a shard with a predicate over the columns of the projection. Rows that do not satisfy it do
    /// not come out.
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

    /// Bytes that are equal only for a source of the same rows, if other processes may read them too.
    fn identity(&self) -> Option<Vec<u8>> {
        None
    }

    /// Checks that rows can be read again once they have been read.
    ///
    /// # Errors
    /// `Plan` if they are gone then, with what to do.
    fn check_replayable(&self) -> Result<()> {
        Ok(())
    }

    /// Opens a shard so that it can be read again by another process. Its reader gives the columns of
    /// `projection`, in batches of at most `batch_rows` rows, which are the same whenever a slice is
    /// read.
    ///
    /// # Errors
    /// `Plan` if the rows are gone once they have been read; if the shard cannot be opened.
    fn replayable(
        &self,
        shard: usize,
        projection: Option<&[usize]>,
        batch_rows: usize,
    ) -> Result<ReplayableShard> {
        match self.open(shard, projection, batch_rows)? {
            Shard::Reader(reader) => Ok(ReplayableShard::of_reader(reader)),
            Shard::Log(shard) => Ok(shard),
            Shard::Queue(_) => plan_err!("{} cannot be read again", self.describe()),
        }
    }
}

/// A source of another crate.
///
/// A plan holds any [`Source`]; this makes a runtime find the [`Dataset`] behind it.
///
/// ```
/// use datafusion::arrow::datatypes::Schema;
/// use std::sync::Arc;
/// use whimbrel_plan::{Source, SourceInfo, Stream};
/// use whimbrel_sharded::dataset::{Dataset, MemoryDataset, OpenSource, Shard};
/// use whimbrel_sharded::{Options, action};
///
/// #[derive(Debug)]
/// struct Nothing;
///
/// impl Source for Nothing {
///     fn info(&self) -> SourceInfo {
///         SourceInfo { schema: Arc::new(Schema::empty()), bounded: true, shards: 1, groups: 1 }
///     }
///     fn describe(&self) -> String {
///         "nothing".to_string()
///     }
/// }
///
/// impl Dataset for Nothing {
///     fn rows(&self) -> Option<u64> {
///         Some(0)
///     }
///     fn open(
///         &self,
///         shard: usize,
///         projection: Option<&[usize]>,
///         batch_rows: usize,
///     ) -> datafusion::error::Result<Shard> {
///         MemoryDataset::new(self.info().schema, vec![vec![]])?.open(shard, projection, batch_rows)
///     }
/// }
///
/// let query = Stream::scan("nothing", Arc::new(OpenSource(Arc::new(Nothing))))?;
/// assert_eq!(action::collect(&query, &Options::default())?.wait()?.num_rows(), 0);
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone)]
pub struct OpenSource(pub Arc<dyn Dataset>);

impl Source for OpenSource {
    fn info(&self) -> SourceInfo {
        self.0.info()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn statistics(&self) -> Arc<Statistics> {
        self.0.statistics()
    }

    fn sample(&self, column: usize) -> Option<ArrayRef> {
        self.0.sample(column)
    }

    fn ranges(&self) -> Option<&Ranges> {
        self.0.ranges()
    }

    fn location(&self) -> Option<Location> {
        self.0.location()
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
    if let Some(follow) = any.downcast_ref::<FollowDataset>() {
        return Ok(follow);
    }
    if let Some(scaled) = any.downcast_ref::<ScaledDataset>() {
        return Ok(scaled);
    }
    if let Some(open) = any.downcast_ref::<OpenSource>() {
        return Ok(open.0.as_ref());
    }
    plan_err!("{} cannot be read by this runtime", source.describe())
}

/// The values of a column of integers or timestamps, without nulls; none of another column.
pub(crate) fn integers(column: &ArrayRef) -> Option<Vec<i64>> {
    let integers = cast(column, &DataType::Int64).ok()?;
    Some(integers.as_primitive::<Int64Type>().iter().flatten().collect())
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
