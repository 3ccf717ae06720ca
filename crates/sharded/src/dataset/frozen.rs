//! Sources as bytes: what another process has to know to read the same rows.
//!
//! Files are known by where they are and what they were, and have to be it still; tables in memory are
//! their bytes; numbers are computed. What is still arriving stays in its process.

use super::file::{FrozenFiles, FrozenFollow};
use super::{FileDataset, FollowDataset, LiveDataset, MemoryDataset, OpenSource, ScaledDataset};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::any::Any;
use std::io::Write;
use std::sync::Arc;
use whimbrel_plan::{Series, Source};

/// A source that any process can read.
#[derive(Debug, Serialize, Deserialize)]
enum FrozenSource {
    /// Numbers.
    Series { column: String, first: i64, step: i64, count: u64, shards: u64 },
    /// A table in memory: each shard as a stream of Arrow IPC.
    Memory { shards: Vec<ByteBuf>, machines: u64 },
    /// Files.
    Files(FrozenFiles),
    /// Files that grow.
    Follow(FrozenFollow),
}

/// A source as bytes.
///
/// ```
/// use std::sync::Arc;
/// use whimbrel_plan::{Series, Source};
/// use whimbrel_sharded::dataset::{freeze, thaw};
///
/// let series = Series::new("n", 0, 10, 5, true)?;
/// let again: Arc<dyn Source> = thaw(&freeze(&series)?)?;
/// assert_eq!(again.describe(), series.describe());
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
///
/// # Errors
/// `Plan` if its rows are in this process only: those of a live source, or of an address with a password; or
/// if it has none, since it is [scaled](ScaledDataset).
pub fn freeze(source: &dyn Source) -> Result<Vec<u8>> {
    let any: &dyn Any = source;
    let shards = source.info().shards as u64;
    let frozen = if let Some(series) = any.downcast_ref::<Series>() {
        let (column, count) = (series.column().to_string(), series.count());
        FrozenSource::Series { column, first: series.first(), step: series.step(), count, shards }
    } else if let Some(memory) = any.downcast_ref::<MemoryDataset>() {
        let shards = memory.shards().iter().map(|shard| {
            let mut bytes = Vec::new();
            write_batches(&mut bytes, memory.schema(), shard).map(|()| ByteBuf::from(bytes))
        });
        FrozenSource::Memory { shards: shards.collect::<Result<_>>()?, machines: source.info().groups as u64 }
    } else if let Some(files) = any.downcast_ref::<FileDataset>() {
        FrozenSource::Files(files.freeze()?)
    } else if let Some(follow) = any.downcast_ref::<FollowDataset>() {
        FrozenSource::Follow(follow.freeze()?)
    } else if let Some(scaled) = any.downcast_ref::<ScaledDataset>() {
        return Err(scaled.unreadable());
    } else {
        return plan_err!(
            "{} is read in this process only, so a plan over it cannot be written; give the plan a table or files",
            source.describe()
        );
    };
    postcard::to_stdvec(&frozen).map_err(|e| plan_datafusion_err!("{e}"))
}

/// A few bytes that are equal for equal sources only: what [`freeze`] gives, with the digests of tables
/// in their place, and for a live source the place of its log.
///
/// # Errors
/// As [`freeze`], of sources without a log.
pub fn fingerprint(source: &dyn Source) -> Result<Vec<u8>> {
    let any: &dyn Any = source;
    if let Some(memory) = any.downcast_ref::<MemoryDataset>() {
        let mut digest = blake3::Hasher::new();
        for shard in memory.shards() {
            write_batches(&mut digest, memory.schema(), shard)?;
        }
        return Ok(digest.finalize().as_bytes().to_vec());
    }
    if any.is::<LiveDataset>() {
        return Ok(format!("{} {:?}", source.describe(), source.info().schema).into_bytes());
    }
    if let Some(identity) = any.downcast_ref::<OpenSource>().and_then(|open| open.0.identity()) {
        return Ok(identity);
    }
    freeze(source)
}

/// The source of bytes that [`freeze`] gave.
///
/// # Errors
/// `Plan` if the bytes are damaged; `Execution` if a file is missing or has changed.
pub fn thaw(bytes: &[u8]) -> Result<Arc<dyn Source>> {
    let frozen: FrozenSource = postcard::from_bytes(bytes).map_err(|e| damaged(&e))?;
    match frozen {
        FrozenSource::Series { column, first, step, count, shards } => {
            let series = Series::counted(&column, first, step, count)?;
            let shards = usize::try_from(shards).map_err(|e| damaged(&e))?;
            series.with_shards(shards).ok_or_else(|| damaged(&"there are no shards"))
        }
        FrozenSource::Memory { shards, machines } => {
            let shards = shards.iter().map(|bytes| read_batches(bytes)).collect::<Result<Vec<_>>>()?;
            let Some((schema, _)) = shards.first() else { return Err(damaged(&"there are no shards")) };
            let schema = Arc::clone(schema);
            let shards = shards.into_iter().map(|(_, batches)| batches).collect();
            let machines = usize::try_from(machines).map_err(|e| damaged(&e))?;
            Ok(Arc::new(MemoryDataset::new(schema, shards)?.with_machines(machines)?))
        }
        FrozenSource::Files(files) => Ok(Arc::new(FileDataset::thaw(files)?)),
        FrozenSource::Follow(follow) => Ok(Arc::new(FollowDataset::thaw(follow)?)),
    }
}

fn damaged(error: &dyn std::fmt::Display) -> datafusion::error::DataFusionError {
    plan_datafusion_err!("a source of this plan is damaged: {error}")
}

fn write_batches(to: impl Write, schema: &Schema, batches: &[RecordBatch]) -> Result<()> {
    let mut writer = StreamWriter::try_new(to, schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.finish()?)
}

/// The columns and the batches of a stream.
fn read_batches(bytes: &[u8]) -> Result<(Arc<Schema>, Vec<RecordBatch>)> {
    crate::error::untrusted(&"a table of this plan", || {
        let reader = StreamReader::try_new(bytes, None)?;
        let schema = reader.schema();
        Ok((schema, reader.collect::<std::result::Result<_, _>>()?))
    })
}
