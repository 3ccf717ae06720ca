//! `collect`: the whole result as one table. `to_memory`: the result, shard by shard, as a dataset to go on
//! with.

use super::Action;
use super::finish::{Finish, tables};
use super::form::Form;
use crate::dataset::MemoryDataset;
use crate::options::{Options, Output};
use crate::runtime::{Order, Sink, share_out, start};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::nodes::TimeSpec;
use whimbrel_plan::{Stream, column};
use whimbrel_temporal::{IngressOptions, Message};

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
    let finish = match (&stream.properties().time, options.output) {
        (None, _) => Finish::InTurn,
        (Some(_), Output::Intervals) => Finish::Merged,
        (Some(_), Output::Events) => Finish::MergedWithPunctuations,
    };
    let (kept, sinks) = keep(stream.properties().shards);
    let job = start(stream, options, Order::Start, sinks)?;
    let (batch_rows, cores) = (options.batch_rows, options.runtime.cores());
    Ok(Action::new(job, move || {
        let parts = finish.parts(taken(&kept), cores);
        let table = |shards: Vec<Vec<Message>>| {
            let form = form.clone();
            move || finish.tables(&form, shards, batch_rows)
        };
        let tables = share_out(parts.into_iter().map(table))?;
        let batches = tables.into_iter().collect::<Result<Vec<_>>>()?.concat();
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
