//! `subscribe`: the result as it becomes known.

use super::form::Form;
use crate::options::Options;
use crate::runtime::{Job, Order, Sink, start};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::Stream;

/// Calls back with each piece of the result and the shard that it comes from, one at a time.
///
/// Pieces of one shard come in order of time; those of a live stream as soon as the ends of their rows are
/// known.
pub fn subscribe(
    stream: &Stream,
    options: &Options,
    callback: impl FnMut(usize, RecordBatch) -> Result<()> + Send + 'static,
) -> Result<Job> {
    let form = Form::of(stream, options);
    let callback = Arc::new(Mutex::new(callback));
    let sink = |shard: usize| -> Sink {
        let (callback, form) = (callback.clone(), form.clone());
        Box::new(move |message| match form.table(&message)? {
            Some(rows) => {
                let mut callback = callback.lock().unwrap_or_else(PoisonError::into_inner);
                callback(shard, rows)
            }
            None => Ok(()),
        })
    };
    let sinks = (0..stream.properties().shards).map(sink).collect();
    start(stream, options, Order::AsKnown, sinks)
}
