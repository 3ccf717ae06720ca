//! `collect`: the whole result as one table. `to_memory`: the result, shard by shard, as a dataset to go on
//! with.

use super::Action;
use super::form::Form;
use crate::dataset::MemoryDataset;
use crate::merge::Gather;
use crate::options::{Options, Output};
use crate::runtime::{Order, Sink, start};
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::nodes::TimeSpec;
use whimbrel_plan::{Stream, column};
use whimbrel_temporal::{INFINITY, IngressOptions, Message};

/// So many rows of a table are a batch that needs no others.
const ENOUGH: usize = 8192;

/// A result in one piece.
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

/// A result in memory.
#[derive(Debug, Clone)]
pub struct Materialized {
    /// The rows, with their lifetimes as columns if there are any.
    pub dataset: Arc<MemoryDataset>,
    /// The same as a stream: shards, times and key are those of the stream that was materialized.
    pub stream: Stream,
}

/// The whole result: of a stream in order of time, rows of one instant in the order of their shards; of a
/// relation shard after shard.
pub fn collect(stream: &Stream, options: &Options) -> Result<Action<Table>> {
    let form = Form::of(stream, options);
    let timed = stream.properties().time.is_some();
    let (kept, sinks) = keep(stream.properties().shards);
    let job = start(stream, options, Order::Start, sinks)?;
    let batch_rows = options.batch_rows;
    Ok(Action::new(job, move || {
        let shards = taken(&kept);
        let messages =
            if timed { merge(shards, batch_rows)? } else { shards.into_iter().flatten().collect() };
        let batches = tables(&form, &messages)?;
        // What cannot be put together stays as it is.
        let batches = put_together(form.schema(), &batches).unwrap_or(batches);
        Ok(Table { schema: form.schema(), batches })
    }))
}

/// The result as a dataset in memory, with the same shards.
pub fn to_memory(stream: &Stream, options: &Options) -> Result<Action<Materialized>> {
    let form = Form::of(stream, options);
    let (kept, sinks) = keep(stream.properties().shards);
    let job = start(stream, options, Order::Start, sinks)?;
    let (stream, output) = (stream.clone(), options.output);
    Ok(Action::new(job, move || {
        let shards =
            taken(&kept).iter().map(|messages| tables(&form, messages)).collect::<Result<Vec<_>>>()?;
        let known = stream.properties();
        let dataset = MemoryDataset::new(form.schema(), shards)?.with_groups(known.groups)?;
        let dataset = Arc::new(dataset);
        let mut again = Stream::scan("memory", dataset.clone())?;
        if known.time.is_some() {
            let time = match output {
                Output::Intervals => TimeSpec::interval("start", "end"),
                Output::Events => TimeSpec::edges("start", "end", "kind"),
            };
            again = again.ingress(time, IngressOptions::default())?;
        }
        if !known.key.is_empty() {
            again = again.rekey(known.key.iter().map(|key| column(form.name(key))).collect())?;
        }
        Ok(Materialized { dataset, stream: again })
    }))
}

type Kept = Arc<Vec<Mutex<Vec<Message>>>>;

/// Sinks that keep everything.
fn keep(shards: usize) -> (Kept, Vec<Sink>) {
    let kept: Kept = Arc::new((0..shards).map(|_| Mutex::new(Vec::new())).collect());
    let sink = |shard: usize| -> Sink {
        let kept = kept.clone();
        Box::new(move |message| {
            kept[shard].lock().unwrap_or_else(PoisonError::into_inner).push(message);
            Ok(())
        })
    };
    let sinks = (0..shards).map(sink).collect();
    (kept, sinks)
}

fn taken(kept: &Kept) -> Vec<Vec<Message>> {
    kept.iter()
        .map(|shard| std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner)))
        .collect()
}

fn merge(shards: Vec<Vec<Message>>, batch_rows: usize) -> Result<Vec<Message>> {
    let mut gather = Gather::new(shards.len(), batch_rows);
    let lanes = shards.len();
    for (lane, messages) in shards.into_iter().enumerate() {
        for message in messages {
            gather.push(lane, message)?;
        }
    }
    for lane in 0..lanes {
        gather.push(lane, Message::Punctuation(INFINITY))?;
    }
    Ok(gather.collect())
}

fn tables(form: &Form, messages: &[Message]) -> Result<Vec<RecordBatch>> {
    messages.iter().filter_map(|message| form.table(message).transpose()).collect()
}

/// The same rows, small batches put together: every batch costs those who read the table.
///
/// # Errors
/// If columns of their types cannot be put together.
fn put_together(schema: SchemaRef, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    if batches.len() < 2 {
        return Ok(batches.to_vec());
    }
    let mut rows = BatchCoalescer::new(schema, ENOUGH).with_biggest_coalesce_batch_size(Some(ENOUGH / 2));
    for batch in batches {
        rows.push_batch(batch.clone())?;
    }
    rows.finish_buffered_batch()?;
    Ok(std::iter::from_fn(|| rows.next_completed_batch()).collect())
}
