//! `publish`: one run of a query, whose result several others read while it grows (trill.txt's `Publish`).
//!
//! Invariant: rows come in order of their starts, each once its end is known, and time goes on as in the
//! result; so whoever reads it from some moment on has a stream as any other.

use super::table_format::{TableFormat, schema};
use crate::dataset::{LiveDataset, LiveSender};
use crate::options::{Options, Output};
use crate::runtime::{Job, Order, Sink, start};
use datafusion::common::{Result, plan_err};
use whimbrel_plan::Stream;
use whimbrel_plan::nodes::TimeSpec;
use whimbrel_temporal::{INFINITY, IngressOptions, Message};

/// A query that runs, and its result as a source.
pub struct Published {
    /// The result. The first query that reads it gets all rows so far, later ones what comes from then on.
    pub stream: Stream,
    /// The query. Nobody stops it when no query reads the result.
    pub job: Job,
}

/// Starts a query whose result others read.
///
/// # Errors
/// `Plan` if the result has no time; as [`run`](crate::run).
pub fn publish(stream: &Stream, options: &Options) -> Result<Published> {
    let options = Options { output: Output::Intervals, ..options.clone() };
    let format = TableFormat::of(stream, &options);
    if stream.properties().time.is_none() {
        return plan_err!(
            "a result without time is there when it has been computed: collect it, or maintain it, and let others read \
             that"
        );
    }
    let shards = stream.properties().shards;
    let (source, senders) = LiveDataset::published(schema(stream, &options), shards)?;
    let rows = Stream::scan("published", source)?;
    let published = rows.ingress(TimeSpec::interval("start", "end"), IngressOptions::default())?;
    let sinks = senders.into_iter().map(|sender| sink(sender, format.clone())).collect();
    let job = start(stream, &options, Order::Start, sinks)?;
    Ok(Published { stream: published, job })
}

/// Sends the result of a shard on.
fn sink(sender: LiveSender, format: TableFormat) -> Sink {
    Box::new(move |message| match message {
        Message::Punctuation(INFINITY) => {
            sender.close();
            Ok(())
        }
        Message::Punctuation(time) => sender.advance(time),
        message => match format.table(&message)? {
            Some(rows) => sender.push(rows),
            None => Ok(()),
        },
    })
}
