//! Runtimes: schedulers of channel programs and carriers of messages, and nothing else.
//!
//! [`Wiring`] is a query ready to run: its channels, and the queues between them. [`Library`] runs it on the
//! thread that waits for it, [`Local`] on a thread a channel.

mod control;
mod job;
mod library;
mod local;
mod pool;
mod queues;
mod wire;
mod wiring;

pub use job::{Job, Progress};
pub use library::Library;
pub use local::Local;
pub use wiring::Wiring;

pub(crate) use control::Control;
pub(crate) use pool::share_out;
pub(crate) use wiring::Sink;

use crate::options::{Options, RuntimeKind};
use crate::program::Programs;
use datafusion::common::{Result, plan_err};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use whimbrel_plan::Stream;
use whimbrel_temporal::Message;
use whimbrel_temporal::operators::CoalesceOrder;
use wire::wire;

/// Runs wired queries.
pub trait Runtime {
    /// Starts a query.
    fn start(&self, wiring: Wiring, progress: Progress) -> Result<Box<dyn Execution>>;
}

/// A query that was started.
pub trait Execution: Send {
    /// Waits for its end, or until an instant; whether it has ended.
    ///
    /// # Errors
    /// The first that happened in any of its channels.
    fn wait(&mut self, until: Option<Instant>) -> Result<bool>;
}

/// Runs a query. `sink` gets what each shard of the result brings, in the order of the shard; it is called by
/// one thread at a time.
pub fn run(
    stream: &Stream,
    options: &Options,
    sink: Box<dyn FnMut(usize, Message) -> Result<()> + Send>,
) -> Result<Job> {
    let sink = Arc::new(Mutex::new(sink));
    let sinks = (0..stream.properties().shards).map(|shard| -> Sink {
        let sink = Arc::clone(&sink);
        Box::new(move |message| {
            let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
            sink(shard, message)
        })
    });
    run_sharded(stream, options, sinks.collect())
}

/// Runs a query with a sink for each shard of the result; several may be called at once.
///
/// With [`Output::Intervals`](crate::Output) rows come in the order of their starts if the query ends, and as
/// their ends become known if it does not.
pub fn run_sharded(
    stream: &Stream,
    options: &Options,
    sinks: Vec<Box<dyn FnMut(Message) -> Result<()> + Send>>,
) -> Result<Job> {
    start(stream, options, Order::AsKnown, sinks)
}

/// In which order coalesced rows come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// In the order of their starts.
    Start,
    /// If the query does not end, as soon as their ends are known; else in the order of their starts.
    AsKnown,
}

/// Wires a query and starts it.
pub(crate) fn start(stream: &Stream, options: &Options, order: Order, sinks: Vec<Sink>) -> Result<Job> {
    if options.batch_rows == 0 || options.queue_capacity == 0 {
        return plan_err!("batches of at least one row and queues for at least one message are needed");
    }
    let endless = match order {
        Order::AsKnown => CoalesceOrder::Known,
        Order::Start => CoalesceOrder::Start,
    };
    run_programs(&Arc::new(Programs::of(stream, options, endless)?), options, sinks)
}

/// Wires programs and starts them. There is a sink for each shard of the result.
pub(crate) fn run_programs(programs: &Arc<Programs>, options: &Options, sinks: Vec<Sink>) -> Result<Job> {
    let wiring = wire(programs, options, sinks)?;
    let control = Arc::new(Control::new(wiring.rows_total(), options.late.clone()));
    let progress = Progress::new(control.clone());
    let execution = match options.runtime {
        RuntimeKind::Library => Library.start(wiring, progress)?,
        RuntimeKind::Local => Local { queue_capacity: options.queue_capacity }.start(wiring, progress)?,
    };
    Ok(Job::new(control, execution))
}
