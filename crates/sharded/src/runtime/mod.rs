//! Runtimes: they schedule channel programs and carry messages, and do nothing else.
//!
//! A [`Wiring`] is a query that is ready to run: its channels, and the queues between them. [`Library`] runs
//! it on the thread that waits for it, [`Local`] runs each channel on a thread of its own.
//!
//! [`run`] and [`run_sharded`] are the way in. They
//! 1. cut and lower the query to [`Programs`];
//! 2. make the program of every channel, open the sources, and connect the channels with queues (`wire`);
//! 3. start the wiring on the runtime that the options name, and return a [`Job`].
//!
//! What the channels of a job share is in `control`: the counters that [`Progress`] shows, the signal to
//! stop, and the first error. A runtime checks the signal before each step, and whenever it waits.

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
    ///
    /// # Errors
    /// If the query cannot be started.
    fn start(&self, wiring: Wiring, progress: Progress) -> Result<Box<dyn Execution>>;
}

/// A query that a runtime has started.
pub trait Execution: Send {
    /// Waits for the end, or until an instant; whether the query has ended.
    ///
    /// # Errors
    /// The first error of any channel.
    fn wait(&mut self, until: Option<Instant>) -> Result<bool>;
}

/// Runs a query. `sink` takes the messages of each shard of the result, in the order of the shard; one thread
/// at a time calls it.
///
/// # Errors
/// As [`run_sharded`].
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

/// Runs a query with a sink for each shard of the result; several threads may call different sinks at once.
///
/// With [`Output::Intervals`](crate::Output) rows come in the order of their starts if the query ends, and as
/// their ends become known if it does not.
///
/// # Errors
/// `Plan` if the query cannot be cut into stages, if there are not as many sinks as shards, or if an option
/// is zero; those of sources that cannot be opened.
pub fn run_sharded(
    stream: &Stream,
    options: &Options,
    sinks: Vec<Box<dyn FnMut(Message) -> Result<()> + Send>>,
) -> Result<Job> {
    start(stream, options, Order::AsKnown, sinks)
}

/// The order in which intervals come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// In the order of their starts.
    Start,
    /// In the order of their starts if the query ends; if it does not, as soon as their ends are known.
    AsKnown,
}

/// Cuts, lowers and wires a query, and starts it.
///
/// # Errors
/// As [`run_sharded`].
pub(crate) fn start(stream: &Stream, options: &Options, order: Order, sinks: Vec<Sink>) -> Result<Job> {
    if options.batch_rows == 0 || options.queue_capacity == 0 {
        return plan_err!("batches of at least one row and queues for at least one message are needed");
    }
    let live_order = match order {
        Order::AsKnown => CoalesceOrder::End,
        Order::Start => CoalesceOrder::Start,
    };
    run_programs(&Arc::new(Programs::of(stream, options, live_order)?), options, sinks)
}

/// Wires programs and starts them, with a sink for each shard of the result.
///
/// # Errors
/// As [`run_sharded`].
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
