//! Runtimes: they schedule channel programs and carry messages, and do nothing else.
//!
//! A [`Wiring`] is a query that is ready to run: its channels, and the queues between them. [`Library`]
//! runs it on the thread that waits for it, [`Local`] runs each channel on a thread of its own, [`Scheduled`]
//! runs many queries on some threads.
//!
//! [`run`] and [`run_sharded`] are the way in. They
//! 1. cut and lower the query to [`Programs`];
//! 2. make the program of every channel, open the sources, and connect the channels with queues (`wire`);
//! 3. start the wiring on the runtime that the options name, and return a [`Job`].
//!
//! What the channels of a job share is in `progress`: the counters that [`Progress`] shows, the signal to
//! stop, and the first error. A runtime checks the signal before each step, and whenever it waits.

mod channel;
mod drive;
mod encoding;
mod epoch;
mod frame;
mod ipc;
mod job;
mod lane;
mod library;
mod local;
mod network;
mod pool;
mod queues;
mod remote_part;
mod route;
mod scheduled;
mod topology;
mod wire;
mod wiring;

pub use crate::options::{
    ChosenPlan, Execution, PlanChoice, RemoteRuntime, Sink, TransferCosts, choices_text,
};
pub use crate::progress::Progress;
pub use drive::{Carrier, Halt};
pub use epoch::{ChannelState, Marker, OrderSink, PacedSource, Report, SourceOrder, States};
pub use frame::{Frame, is_same};
pub use job::Job;
pub use lane::Item;
pub use library::Library;
pub use local::Local;
pub use network::Network;
pub use pool::spawn;
pub use remote_part::{RemotePart, ResultSinks, hand_out};
pub use scheduled::Scheduled;
pub use topology::{Edge, LaneOrigin, Queue, QueueId, Topology};
pub use wiring::Wiring;

pub(crate) use crate::progress::Control;
pub(crate) use pool::share_out;

use crate::options::{Options, RuntimeKind};
use crate::program::Programs;
use crossbeam_channel::{Receiver, Sender, unbounded};
use datafusion::common::{Result, internal_datafusion_err, plan_err};
use drive::drive;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use whimbrel_plan::Stream;
use whimbrel_temporal::Message;
use whimbrel_temporal::operators::CoalesceOrder;
use wire::{Pace, open_channel, wire};

pub(crate) use wire::{paced_lanes, paced_sources};

/// Runs wired queries.
pub trait Runtime {
    /// Starts a query.
    ///
    /// # Errors
    /// If the query cannot be started.
    fn start(&self, wiring: Wiring, progress: Progress) -> Result<Box<dyn Execution>>;
}

/// Runs a query. `sink` takes the messages of each shard of the result, in the order of the shard; one
/// thread at a time calls it.
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

/// Runs a query with a sink for each shard of the result; several threads may call different sinks at
/// once.
///
/// With [`Output::Intervals`](crate::Output) rows come in the order of their starts if the query ends,
/// and as their ends become known if it does not.
///
/// # Errors
/// `Plan` if the query cannot be cut into stages, if there are not as many sinks as shards, or if an
/// option is zero; those of sources that cannot be opened.
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
    if let Some(remote) = &options.remote {
        let progress = Progress::new(Arc::new(Control::new(None, options.late.clone())));
        let execution = remote.start(stream, options, sinks, &progress)?;
        return Ok(Job::new(Arc::clone(progress.control()), execution));
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
    start_wiring(wire(programs, options, sinks, None, &None)?, options)
}

/// Wires programs whose sources are read as a coordinator orders, and starts them; also the sources, in
/// the order of their numbers.
///
/// # Errors
/// As [`run_sharded`]; `Plan` if a source cannot be read again; those of states that are not of these
/// channels.
pub(crate) fn run_in_epochs(
    programs: &Arc<Programs>,
    options: &Options,
    sinks: Vec<Sink>,
    reports: Sender<Report>,
    states: &States,
) -> Result<(Job, Vec<PacedSource>)> {
    let mut sources = Vec::new();
    let mut connect = |place, log| {
        let (sender, orders) = unbounded();
        // A lane that has ended takes no more orders.
        let send: OrderSink = Box::new(move |order| _ = sender.send(order));
        sources.push(PacedSource::new(place, log, send));
        Ok((sources.len() - 1, orders))
    };
    let mut pace = Pace { reports, connect: &mut connect };
    let wiring = wire(programs, options, sinks, Some(&mut pace), states)?;
    Ok((start_wiring(wiring, options)?, sources))
}

/// Runs one channel of a query on this thread, to its end: the others run elsewhere, and the carrier knows
/// where. A channel of the result hands it to `sink`; the carrier gets the end of every queue, but nobody
/// tells the sink.
///
/// # Errors
/// `Stopped` if the query is cancelled; `Failed` with the error of the channel, of the sink or the carrier.
pub fn run_channel(
    programs: &Programs,
    topology: &Topology,
    number: usize,
    options: &Options,
    sink: Option<Box<dyn FnMut(Message) -> Result<()> + Send>>,
    carrier: &mut impl Carrier,
    progress: &Progress,
) -> Result<(), Halt> {
    let id = topology.channels()[number];
    let program = programs.channel(id.stage, id.channel)?;
    let mut channel = open_channel(programs, topology, number, program, options, None)?;
    if let Some(sink) = sink {
        channel.set_sink(programs.stages().result.1, sink);
    }
    drive(&mut channel, carrier, progress.control())
}

/// How a channel takes part in the epochs of a query whose coordinator is elsewhere.
pub struct EpochChannel {
    /// Takes what it reports.
    pub reports: Sender<Report>,
    /// The orders for its sources, by their numbers.
    pub orders: BTreeMap<usize, Receiver<SourceOrder>>,
    /// What it goes on from.
    pub start: ChannelStart,
}

/// What a channel of a query in epochs goes on from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ChannelStart {
    /// The job begins.
    Beginning,
    /// A state that was saved.
    State(ChannelState),
    /// It had ended.
    Ended,
}

/// Runs one channel of a query in epochs on this thread, as [`run_channel`] does.
///
/// # Errors
/// As [`run_channel`]; `Internal` if a source has no orders.
pub(crate) fn run_channel_in_epochs(
    (programs, topology): (&Programs, &Topology),
    number: usize,
    options: &Options,
    sink: Option<Sink>,
    carrier: &mut impl Carrier,
    progress: &Progress,
    EpochChannel { reports, mut orders, start }: EpochChannel,
) -> Result<(), Halt> {
    let id = topology.channels()[number];
    let places = paced_lanes(programs, topology);
    let mut connect = |place, _| {
        let source = places.iter().position(|known| *known == place);
        let connected = source.and_then(|source| Some((source, orders.remove(&source)?)));
        connected.ok_or_else(|| internal_datafusion_err!("a source of {id} has no orders"))
    };
    let mut pace = Pace { reports, connect: &mut connect };
    let program = programs.channel(id.stage, id.channel)?;
    let mut channel = open_channel(programs, topology, number, program, options, Some(&mut pace))?;
    if let Some(sink) = sink {
        channel.set_sink(programs.stages().result.1, sink);
    }
    match &start {
        ChannelStart::Beginning => {}
        ChannelStart::State(state) => channel.restore(Some(state))?,
        ChannelStart::Ended => channel.restore(None)?,
    }
    drive(&mut channel, carrier, progress.control())
}

/// Starts a wiring on the runtime that the options name.
fn start_wiring(wiring: Wiring, options: &Options) -> Result<Job> {
    let control = Arc::new(Control::new(wiring.rows_total(), options.late.clone()));
    let progress = Progress::new(control.clone());
    let execution = match (options.runtime, &options.scheduler) {
        (RuntimeKind::Library, Some(scheduler)) => Scheduled(scheduler.clone()).start(wiring, progress)?,
        (RuntimeKind::Library, None) => Library.start(wiring, progress)?,
        (RuntimeKind::Local, _) => {
            Local { queue_capacity: options.queue_capacity }.start(wiring, progress)?
        }
    };
    Ok(Job::new(control, execution))
}
