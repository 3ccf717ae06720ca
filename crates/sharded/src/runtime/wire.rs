//! Wiring: the channels of a query are made, their sources opened, and their routes laid along the queues of
//! the topology.

use super::channel::{Channel, Epochs};
use super::epoch::{ChannelState, PacedLane, PacedSource, Report};
use super::lane::{GrowingLane, Lane};
use super::pool::share_out;
use super::route::Route;
use super::topology::{Edge, LaneOrigin, Topology};
use super::wiring::Wiring;
use crate::dataset::{ReplayableShard, Shard, dataset};
use crate::exchange::partitioner;
use crate::options::{Options, Sink};
use crate::program::{ChannelId, ChannelProgram, Programs};
use crate::stage::{Input, Kind, Origin, Scan};
use crossbeam_channel::Sender;
use datafusion::common::{Result, internal_err, plan_err};
use std::collections::BTreeMap;
use std::sync::Arc;
use whimbrel_temporal::Lifetimes;

/// The most rows that are read at once for DataFusion's operators: the columns that these compute have to
/// fit into the cache.
const RELATIONAL_ROWS: usize = 16_384;

/// What a query in epochs is wired with.
pub(super) struct Pace {
    /// Where channels report to.
    pub reports: Sender<Report>,
    /// The sources that were opened, in the order of their numbers.
    pub sources: Vec<PacedSource>,
    /// The states that the channels go on from. A channel without one had ended.
    pub states: Option<BTreeMap<ChannelId, ChannelState>>,
}

/// Wires all channels of a query: one sink for each shard of the result.
///
/// # Errors
/// `Plan` if there are not as many sinks as the result has shards, or a channel cannot have a program;
/// those of sources that cannot be opened.
pub(super) fn wire(
    programs: &Arc<Programs>,
    options: &Options,
    sinks: Vec<Sink>,
    mut pace: Option<&mut Pace>,
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
    if let Some(states) = pace.as_ref().and_then(|pace| pace.states.as_ref()) {
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
    mut pace: Option<&mut Pace>,
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
                source(&channel, input, stage.kind, options, pace.as_deref_mut())?
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
    channel: &Channel,
    input: &Input,
    kind: Kind,
    options: &Options,
    pace: Option<&mut Pace>,
) -> Result<Lane> {
    let Origin::Scan(Scan { source, columns, .. }) = &input.origin else {
        return internal_err!("a scan is read here");
    };
    let (dataset, shard, lane) = (dataset(source.as_ref())?, channel.id.channel, channel.lanes.len());
    let projection = columns.as_deref();
    let batch_rows = match kind {
        Kind::Relational => options.batch_rows.min(RELATIONAL_ROWS),
        Kind::Temporal => options.batch_rows,
    };
    if let (Some(pace), Kind::Temporal) = (pace, kind) {
        let shard = dataset.replayable(shard, projection, batch_rows)?;
        return Ok(paced(pace, (channel.id, lane), shard));
    }
    let shard = match channel.program.predicate(lane) {
        Some(predicate) => dataset.open_where(shard, projection, batch_rows, predicate)?,
        None => dataset.open(shard, projection, batch_rows)?,
    };
    Ok(match shard {
        Shard::Reader(reader) => Lane::Reader(reader),
        Shard::Queue(queue) => Lane::Live { queue, columns: columns.clone() },
        Shard::Log(shard) => Lane::Growing(Box::new(GrowingLane::new(shard))),
    })
}

/// A lane that is read in slices; it is the one of this channel and number.
fn paced(pace: &mut Pace, place: (ChannelId, usize), shard: ReplayableShard) -> Lane {
    let (source, lane) = PacedLane::new(pace.sources.len(), place, shard, pace.reports.clone());
    pace.sources.push(source);
    Lane::Paced(Box::new(lane))
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
