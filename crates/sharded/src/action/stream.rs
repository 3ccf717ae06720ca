//! `to_binary_stream`: one Arrow IPC stream per shard.

use super::Action;
use super::table_format::TableFormat;
use crate::options::Options;
use crate::runtime::{Order, Sink, start};
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::{Result, plan_err};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::Stream;

/// Writes each shard of the result to the writer of its number. Each batch is flushed.
///
/// # Errors
/// `Plan` if there are not as many writers as shards; as [`run`](crate::run).
pub fn to_binary_stream(
    stream: &Stream,
    options: &Options,
    writers: Vec<Box<dyn Write + Send>>,
) -> Result<Action<()>> {
    if writers.len() != stream.properties().shards {
        return plan_err!(
            "the result has {} shards, but {} streams to write to were given",
            stream.properties().shards,
            writers.len()
        );
    }
    let format = TableFormat::of(stream, options);
    let schema = format.schema();
    let writers = writers.into_iter().map(|w| Ok(Mutex::new(StreamWriter::try_new(w, &schema)?)));
    let writers = Arc::new(writers.collect::<Result<Vec<_>>>()?);
    let sink = |shard: usize| -> Sink {
        let (writers, format) = (writers.clone(), format.clone());
        Box::new(move |message| {
            if let Some(rows) = format.table(&message)? {
                let mut writer = writers[shard].lock().unwrap_or_else(PoisonError::into_inner);
                writer.write(&rows)?;
                writer.flush()?;
            }
            Ok(())
        })
    };
    let sinks = (0..writers.len()).map(sink).collect();
    let job = start(stream, options, Order::Start, sinks)?;
    Ok(Action::new(job, move || {
        for writer in writers.iter() {
            writer.lock().unwrap_or_else(PoisonError::into_inner).finish()?;
        }
        Ok(())
    }))
}
