//! Wiring: the channels of a query are made, their sources opened, and their routes laid along the queues of
//! the topology.

use super::channel::{Channel, Epochs};
use super::epoch::{OrderSink, PacedLane, PacedPlace, PacedSource, Report, SourceOrder, States};
use super::lane::{GrowingLane, Lane};
use super::pool::share_out;
use super::route::Route;
use super::topology::{Edge, LaneOrigin, Topology};
use super::wiring::Wiring;
use crate::dataset::{Idleness, ReplayableShard, Shard, ShardLog, dataset};
use crate::exchange::partitioner;
use crate::options::{Options, Sink};
use crate::program::{ChannelId, ChannelProgram, Programs};
use crate::stage::{Input, Kind, Origin, Scan};
use crossbeam_channel::{Receiver, Sender};
use datafusion::common::{Result, internal_err, plan_err};
use std::sync::Arc;
use whimbrel_temporal::Lifetimes;

/// The most rows that are read at once for DataFusion's operators: the columns that these compute have to
/// fit into the cache.
const RELATIONAL_ROWS: usize = 16_384;

/// What channels of a query in epochs are opened with.
pub(super) struct Pace<'a> {
    /// Where channels report to.
    pub reports: Sender<Report>,
    /// Connects the sources that are opened.
    pub connect: &'a mut Connect<'a>,
}

/// Gives a source its number, and the orders for its reader.
pub(super) type Connect<'a> =
    dyn FnMut(PacedPlace, Box<dyn ShardLog>) -> Result<(usize, Receiver<SourceOrder>)> + 'a;

/// Wires all channels of a query: one sink for each shard of the result.
///
/// # Errors
/// `Plan` if there are not as many sinks as the result has shards, or a channel cannot have a program;
/// those of sources that cannot be opened.
pub(super) fn wire(
    programs: &Arc<Programs>,
    options: &Options,
    sinks: Vec<Sink>,
    mut pace: Option<&mut Pace<'_>>,
    states: &States,
) -> Result<Wiring> {
    let (result, output) = programs.stages().result;
    let shards = programs.stages().stages[result].channels;
    if sinks.len() != shards {
        return plan_err!("the result has {shards} shards, but there are {} sinks", sinks.len());
    }
    let topology = Topology::of(programs);
    let mut channels = Vec::new();
    for (number, program) in programs_of_channels(programs, options)?.into_iter().enumerate() {
        channels.push(open_channel(programs, &topology, number, program, options, pace.as_deref_mut())?);
    }
    for (channel, sink) in topology.channels_of(result).zip(sinks) {
        channels[channel].set_sink(output, sink);
    }
    if let Some(states) = states {
        channels.iter_mut().try_for_each(|channel| channel.restore(states.get(&channel.id)))?;
    }
    let rows_total = rows_total(programs)?;
    Ok(Wiring { channels, queues: topology.queues().to_vec(), rows_total })
}

/// Opens a channel: its sources are opened, and it knows where its messages go.
///
/// # Errors
/// Those of sources that cannot be opened, and of expressions of exchanges.
pub(super) fn open_channel(
    programs: &Programs,
    topology: &Topology,
    number: usize,
    program: Box<dyn ChannelProgram>,
    options: &Options,
    mut pace: Option<&mut Pace<'_>>,
) -> Result<Channel> {
    let id = topology.channels()[number];
    let stage = &programs.stages().stages[id.stage];
    let epochs = pace
        .as_ref()
        .map(|pace| Epochs { passes_markers: stage.kind == Kind::Temporal, reports: pace.reports.clone() });
    let mut channel = Channel::new(id, program, stage.outputs.len(), epochs);
    for origin in topology.lanes(number) {
        let lane = match origin {
            LaneOrigin::Queue(queue) => Lane::Queue(*queue),
            LaneOrigin::Source { input } => {
                let input = &stage.inputs[*input];
                source(programs, &channel, input, options, pace.as_deref_mut())?
            }
        };
        channel.add_lane(lane);
    }
    for edge in topology.edges(number) {
        channel.outlets[edge.output].routes.push(route(programs, id, edge)?);
    }
    Ok(channel)
}

/// Opens the shard of a source that is the next lane of a channel.
fn source(
    programs: &Programs,
    channel: &Channel,
    input: &Input,
    options: &Options,
    pace: Option<&mut Pace<'_>>,
) -> Result<Lane> {
    let (shard, lane) = (channel.id.channel, channel.lanes.len());
    let kind = programs.stages().stages[channel.id.stage].kind;
    if let (Some(pace), Kind::Temporal) = (pace, kind) {
        let ReplayableShard { log, reader } = replayable(programs, input, shard, options)?;
        let (source, orders) = (pace.connect)((channel.id, lane), log)?;
        return Ok(Lane::Paced(Box::new(PacedLane::new(source, orders, reader, pace.reports.clone()))));
    }
    let Scan { source, columns, .. } = scan(input)?;
    let (dataset, projection) = (dataset(source.as_ref())?, columns.as_deref());
    let batch_rows = match kind {
        Kind::Relational => options.batch_rows.min(RELATIONAL_ROWS),
        Kind::Temporal => options.batch_rows,
    };
    let shard = match channel.program.predicate(lane) {
        Some(predicate) => dataset.open_where(shard, projection, batch_rows, predicate)?,
        None => dataset.open(shard, projection, batch_rows)?,
    };
    Ok(match shard {
        Shard::Reader(reader) => Lane::Reader(reader),
        Shard::Queue(queue) => Lane::Live { queue, columns: columns.clone() },
        Shard::Log(shard) => {
            Lane::Growing(Box::new(GrowingLane::new(with_promises(programs, input, shard)?)))
        }
    })
}

/// The scan of an input that is one.
fn scan(input: &Input) -> Result<&Scan> {
    match &input.origin {
        Origin::Scan(scan) => Ok(scan),
        Origin::Edge { .. } => internal_err!("a scan is read here"),
    }
}

/// Opens a shard of a source so that it can be read again.
fn replayable(
    programs: &Programs,
    input: &Input,
    shard: usize,
    options: &Options,
) -> Result<ReplayableShard> {
    let Scan { source, columns, .. } = scan(input)?;
    let shard = dataset(source.as_ref())?.replayable(shard, columns.as_deref(), options.batch_rows)?;
    with_promises(programs, input, shard)
}

/// The shard, with promises while it is idle, if its ingress asks for them.
fn with_promises(programs: &Programs, input: &Input, shard: ReplayableShard) -> Result<ReplayableShard> {
    let Some(ingress) = &input.ingress else { return Ok(shard) };
    let Some(timeout) = ingress.options.idle else { return Ok(shard) };
    let Some(time) = input.schema.index_of_column_by_name(None, &ingress.time.start) else {
        return internal_err!("the time column `{}` is gone", ingress.time.start);
    };
    let idleness = Idleness { time, timeout, latency: ingress.options.reorder_latency };
    Ok(programs.stages().idle_shards.watch(shard, idleness))
}

/// The lanes that are read as a coordinator orders, in the order of the sources' numbers.
///
/// Invariant: it is the order in which [`wire`] opens them.
pub(crate) fn paced_lanes(programs: &Programs, topology: &Topology) -> Vec<PacedPlace> {
    let lanes = |(number, id): (usize, &ChannelId)| {
        let id = *id;
        let lanes = topology.lanes(number).iter().enumerate();
        let sources = lanes.filter(|(_, origin)| matches!(origin, LaneOrigin::Source { .. }));
        sources.map(move |(lane, _)| (id, lane)).collect::<Vec<_>>()
    };
    let is_paced = |(_, id): &(usize, &ChannelId)| programs.stages().stages[id.stage].kind == Kind::Temporal;
    topology.channels().iter().enumerate().filter(is_paced).flat_map(lanes).collect()
}

/// The sources of a query in epochs whose channels run elsewhere; `orders` takes those for the source of a
/// number.
///
/// # Errors
/// `Plan` if a source cannot be read again; those of sources that cannot be opened.
pub(crate) fn paced_sources(
    programs: &Programs,
    topology: &Topology,
    options: &Options,
    orders: impl Fn(usize, ChannelId) -> OrderSink,
) -> Result<Vec<PacedSource>> {
    let mut sources = Vec::new();
    for (number, (id, lane)) in paced_lanes(programs, topology).into_iter().enumerate() {
        let stage = &programs.stages().stages[id.stage];
        let channel = topology.channels_of(id.stage).start + id.channel;
        let LaneOrigin::Source { input } = topology.lanes(channel)[lane] else {
            return internal_err!("lane {lane} of {id} is no source");
        };
        let ReplayableShard { log, .. } = replayable(programs, &stage.inputs[input], id.channel, options)?;
        sources.push(PacedSource::new((id, lane), log, orders(number, id)));
    }
    Ok(sources)
}

/// The route of a channel along an edge.
fn route(programs: &Programs, from: ChannelId, edge: &Edge) -> Result<Route> {
    let stages = &programs.stages().stages;
    let Origin::Edge { exchange, .. } = &stages[edge.stage].inputs[edge.input].origin else {
        return internal_err!("an edge is connected here");
    };
    let producers = &stages[from.stage];
    let output = &producers.outputs[edge.output];
    let ends = output.lifetimes == Lifetimes::Any;
    let partitioner = partitioner(exchange.as_deref(), from.channel, &output.schema, ends)?;
    let metrics = programs.edge_metrics(edge.stage, edge.input).cloned();
    Ok(Route::new(partitioner, edge.targets.clone(), producers.kind == Kind::Relational, metrics))
}

/// How many rows will be read, if that is known of all sources.
fn rows_total(programs: &Programs) -> Result<Option<u64>> {
    let mut total = Some(0);
    for input in programs.stages().stages.iter().flat_map(|stage| &stage.inputs) {
        if let Origin::Scan(scan) = &input.origin {
            total = total.zip(dataset(scan.source.as_ref())?.rows()).map(|(all, more)| all + more);
        }
    }
    Ok(total)
}

/// The programs of all channels, stage after stage.
///
/// To plan DataFusion's operators takes longer than many a query runs, so relational channels are planned
/// on several threads, if the runtime may use them. Our own operators are made in less time than a thread
/// is woken.
fn programs_of_channels(programs: &Arc<Programs>, options: &Options) -> Result<Vec<Box<dyn ChannelProgram>>> {
    let stages = || programs.stages().stages.iter();
    let relational = stages().filter(|stage| stage.kind == Kind::Relational);
    let threads = options.runtime.cores().min(relational.map(|stage| stage.channels).sum()).max(1);
    let count: usize = stages().map(|stage| stage.channels).sum();
    // Neighbours are of one stage and so alike: each thread gets its share of each stage.
    let share = |thread: usize| {
        let programs = Arc::clone(programs);
        move || -> Result<Vec<_>> {
            let stages = programs.stages().stages.iter().enumerate();
            let channels = stages.flat_map(|(stage, s)| (0..s.channels).map(move |index| (stage, index)));
            let own = channels.skip(thread).step_by(threads);
            own.map(|(stage, index)| programs.channel(stage, index)).collect()
        }
    };
    let shares = share_out((0..threads).map(share))?.into_iter();
    let mut shares = shares.map(|share| Ok(share?.into_iter())).collect::<Result<Vec<_>>>()?;
    Ok((0..count).filter_map(|channel| shares[channel % threads].next()).collect())
}
