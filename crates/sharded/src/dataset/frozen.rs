//! Sources as bytes: what another process has to know to read the same rows.
//!
//! Files are known by where they are and what they were, and have to be it still; tables in memory are their
//! bytes; numbers are computed. What is still arriving stays in its process.

use super::file::FrozenFiles;
use super::{FileDataset, MemoryDataset};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::sync::Arc;
use whimbrel_plan::{Series, Source};

/// A source that any process can read.
#[derive(Debug, Serialize, Deserialize)]
enum FrozenSource {
    /// Numbers.
    Series { column: String, first: i64, step: i64, count: u64, shards: u64 },
    /// A table in memory: each shard as a stream of Arrow IPC.
    Memory { shards: Vec<Vec<u8>>, machines: u64 },
    /// Files.
    Files(FrozenFiles),
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
/// `Plan` if its rows are in this process only: those of a live source, or of an address with a password.
pub fn freeze(source: &dyn Source) -> Result<Vec<u8>> {
    let any: &dyn Any = source;
    let shards = source.info().shards as u64;
    let frozen = if let Some(series) = any.downcast_ref::<Series>() {
        let (column, count) = (series.column().to_string(), series.count());
        FrozenSource::Series { column, first: series.first(), step: series.step(), count, shards }
    } else if let Some(memory) = any.downcast_ref::<MemoryDataset>() {
        let shards = memory.shards().iter().map(|shard| write_batches(memory.schema(), shard));
        FrozenSource::Memory { shards: shards.collect::<Result<_>>()?, machines: source.info().groups as u64 }
    } else if let Some(files) = any.downcast_ref::<FileDataset>() {
        FrozenSource::Files(files.freeze()?)
    } else {
        return plan_err!(
            "{} is read in this process only, so a plan over it cannot be written; give the plan a table or files",
            source.describe()
        );
    };
    postcard::to_stdvec(&frozen).map_err(|e| plan_datafusion_err!("{e}"))
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
    }
}

fn damaged(error: &dyn std::fmt::Display) -> datafusion::error::DataFusionError {
    plan_datafusion_err!("a source of this plan is damaged: {error}")
}

fn write_batches(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    drop(writer);
    Ok(bytes)
}

/// The columns and the batches of a stream.
fn read_batches(bytes: &[u8]) -> Result<(Arc<Schema>, Vec<RecordBatch>)> {
    crate::error::untrusted(&"a table of this plan", || {
        let reader = StreamReader::try_new(bytes, None)?;
        let schema = reader.schema();
        Ok((schema, reader.collect::<std::result::Result<_, _>>()?))
    })
}
