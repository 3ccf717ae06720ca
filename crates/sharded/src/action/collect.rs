//! `collect`: the whole result as one table. `to_memory`: the result as a dataset with the same shards.

use super::Action;
use super::assemble::{ShardOrder, tables};
use super::stored::StoredResult;
use super::table_format::TableFormat;
use crate::dataset::MemoryDataset;
use crate::options::{Options, Output, ResultShards};
use crate::runtime::{Order, Sink, share_out, start};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::Stream;
use whimbrel_temporal::Message;

/// A result as one table.
#[derive(Debug, Clone)]
pub struct Table {
    /// The columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

impl Table {
    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.batches.iter().map(|b| b.num_rows()).sum()
    }
}

/// A result as a dataset in memory.
#[derive(Debug, Clone)]
pub struct Materialized {
    /// The rows, with their lifetimes as columns if there are any.
    pub dataset: Arc<MemoryDataset>,
    /// The dataset as a stream, with the shards, times and key of the stream that was materialized.
    pub stream: Stream,
}

/// Collects the whole result: of a stream in order of time, rows of one instant in the order of their shards;
/// of a relation shard after shard.
///
/// # Errors
/// As [`run`](crate::run).
pub fn collect(stream: &Stream, options: &Options) -> Result<Action<Table>> {
    let format = TableFormat::of(stream, options);
    let order = match (&stream.properties().time, options.output) {
        (None, _) => ShardOrder::Sequential,
        (Some(_), Output::Intervals) => ShardOrder::ByTime,
        (Some(_), Output::Events) => ShardOrder::ByTimeWithPunctuations,
    };
    let (buffers, sinks) = buffer(stream.properties().shards);
    let options = &Options { shards: ResultShards::Merged, ..options.clone() };
    let job = start(stream, options, Order::Start, sinks)?;
    let (batch_rows, cores) = (options.batch_rows, options.cores());
    Ok(Action::new(job, move || {
        let parts = order.parts(take(&buffers), cores);
        let table = |shards: Vec<Vec<Message>>| {
            let format = format.clone();
            move || order.tables(&format, shards, batch_rows)
        };
        let tables = share_out(parts.into_iter().map(table))?;
        let batches = tables.into_iter().collect::<Result<Vec<_>>>()?.concat();
        Ok(Table { schema: format.schema(), batches })
    }))
}

/// Collects the result as a dataset in memory, with the same shards.
///
/// # Errors
/// As [`run`](crate::run).
pub fn to_memory(stream: &Stream, options: &Options) -> Result<Action<Materialized>> {
    let format = TableFormat::of(stream, options);
    let stored = StoredResult::of(stream, options);
    let (buffers, sinks) = buffer(stream.properties().shards);
    let job = start(stream, options, Order::Start, sinks)?;
    let machines = stream.properties().groups;
    Ok(Action::new(job, move || {
        let shards =
            take(&buffers).iter().map(|messages| tables(&format, messages)).collect::<Result<Vec<_>>>()?;
        let dataset = Arc::new(MemoryDataset::new(format.schema(), shards)?.with_machines(machines)?);
        let stream = stored.stream("memory", dataset.clone())?;
        Ok(Materialized { dataset, stream })
    }))
}

/// The messages of each shard.
type Buffers = Arc<Vec<Mutex<Vec<Message>>>>;

/// Sinks that buffer all messages.
fn buffer(shards: usize) -> (Buffers, Vec<Sink>) {
    let buffers: Buffers = Arc::new((0..shards).map(|_| Mutex::new(Vec::new())).collect());
    let sink = |shard: usize| -> Sink {
        let buffers = buffers.clone();
        Box::new(move |message| {
            buffers[shard].lock().unwrap_or_else(PoisonError::into_inner).push(message);
            Ok(())
        })
    };
    let sinks = (0..shards).map(sink).collect();
    (buffers, sinks)
}

/// Takes the messages out of the buffers.
fn take(buffers: &Buffers) -> Vec<Vec<Message>> {
    buffers
        .iter()
        .map(|shard| std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner)))
        .collect()
}
