//! `subscribe`: a callback gets the result as it becomes known.

use super::table_format::TableFormat;
use crate::options::Options;
use crate::runtime::{Job, Order, Sink, start};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::Stream;

/// Calls back with each batch of the result and the number of its shard, one call at a time.
///
/// The batches of a shard come in order of time; rows of a live stream come as soon as their ends are known.
///
/// # Errors
/// As [`run`](crate::run).
pub fn subscribe(
    stream: &Stream,
    options: &Options,
    callback: impl FnMut(usize, RecordBatch) -> Result<()> + Send + 'static,
) -> Result<Job> {
    let format = TableFormat::of(stream, options);
    let callback = Arc::new(Mutex::new(callback));
    let sink = |shard: usize| -> Sink {
        let (callback, format) = (callback.clone(), format.clone());
        Box::new(move |message| match format.table(&message)? {
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
