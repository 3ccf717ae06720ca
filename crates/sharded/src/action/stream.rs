//! `to_binary_stream`: an Arrow IPC stream a shard.

use super::Action;
use super::form::Form;
use crate::options::Options;
use crate::runtime::{Order, Sink, start};
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::{Result, plan_err};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::Stream;

/// Writes each shard of the result to the writer of its number. What a batch brings is flushed at once.
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
    let form = Form::of(stream, options);
    let schema = form.schema();
    let writers = writers.into_iter().map(|w| Ok(Mutex::new(StreamWriter::try_new(w, &schema)?)));
    let writers = Arc::new(writers.collect::<Result<Vec<_>>>()?);
    let sink = |shard: usize| -> Sink {
        let (writers, form) = (writers.clone(), form.clone());
        Box::new(move |message| {
            if let Some(rows) = form.table(&message)? {
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
