//! Wiring a query, stage after stage: programs are made, sources opened, and channels connected to those
//! of earlier stages.

use super::channel::{Channel, Epochs};
use super::epoch::{ChannelState, PacedLane, PacedSource, Report};
use super::lane::{GrowingLane, Lane};
use super::pool::share_out;
use super::route::{Route, Sink};
use super::wiring::{Queue, Wiring};
use crate::dataset::{ReplayableShard, Shard, dataset};
use crate::exchange::partitioner;
use crate::options::Options;
use crate::program::{ChannelId, ChannelProgram, Programs};
use crate::stage::{Input, Kind, Origin};
use crossbeam_channel::Sender;
use datafusion::common::{Result, internal_err, plan_err};
use std::collections::BTreeMap;
use std::sync::Arc;
use whimbrel_temporal::Lifetimes;

/// The most rows that are read at once for DataFusion's operators: the columns that these compute have to
/// fit into the cache.
const RELATIONAL_ROWS: usize = 16_384;

/// Wires programs: one sink for each shard of the result.
///
/// # Errors
/// `Plan` if there are not as many sinks as the result has shards, or a channel cannot have a program;
/// those of sources that cannot be opened.
pub(super) fn wire(
    programs: &Arc<Programs>,
    options: &Options,
    sinks: Vec<Sink>,
    pace: Option<&mut Pace>,
) -> Result<Wiring> {
    let stages = programs.stages();
    let (result, output) = stages.result;
    let shards = stages.stages[result].channels;
    if sinks.len() != shards {
        return plan_err!("the result has {shards} shards, but there are {} sinks", sinks.len());
    }
    let mut builder = Builder::new(programs, options, pace)?;
    (0..stages.stages.len()).try_for_each(|stage| builder.stage(stage))?;
    let first = builder.first_channels[result];
    for (shard, sink) in sinks.into_iter().enumerate() {
        builder.channels[first + shard].outlets[output].sink = Some(sink);
    }
    builder.restore()?;
    let Builder { channels, queues, rows_total, .. } = builder;
    Ok(Wiring { channels, queues, rows_total })
}

/// What a query in epochs is wired with.
pub(super) struct Pace {
    /// Where channels report to.
    pub reports: Sender<Report>,
    /// The sources that were opened, in the order of their numbers.
    pub sources: Vec<PacedSource>,
    /// The states that the channels go on from. A channel without one had ended.
    pub states: Option<BTreeMap<ChannelId, ChannelState>>,
}

/// A wiring in the making.
struct Builder<'a> {
    programs: &'a Programs,
    options: &'a Options,
    /// The programs of the channels that are not wired yet, in order.
    unwired: std::vec::IntoIter<Box<dyn ChannelProgram>>,
    /// The number of each stage's first channel.
    first_channels: Vec<usize>,
    channels: Vec<Channel>,
    queues: Vec<Queue>,
    rows_total: Option<u64>,
    pace: Option<&'a mut Pace>,
}

impl<'a> Builder<'a> {
    /// Makes the programs of all channels.
    fn new(
        programs: &'a Arc<Programs>,
        options: &'a Options,
        pace: Option<&'a mut Pace>,
    ) -> Result<Builder<'a>> {
        let channels = programs.stages().stages.iter().map(|s| s.channels);
        let first_channels = channels.scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n))).collect();
        let unwired = programs_of_channels(programs, options)?.into_iter();
        let (channels, queues, rows_total) = (vec![], vec![], Some(0));
        Ok(Builder { programs, options, unwired, first_channels, channels, queues, rows_total, pace })
    }

    /// Makes the channels of a stage and connects them to those of earlier stages.
    fn stage(&mut self, number: usize) -> Result<()> {
        let stage = &self.programs.stages().stages[number];
        for index in 0..stage.channels {
            let Some(program) = self.unwired.next() else {
                return internal_err!("stage {number} has no program for channel {index}");
            };
            let id = ChannelId { stage: number, channel: index };
            let epochs = self.pace.as_ref().map(|pace| Epochs {
                passes_markers: stage.kind == Kind::Temporal,
                reports: pace.reports.clone(),
            });
            self.channels.push(Channel::new(id, program, stage.outputs.len(), epochs));
        }
        for (place, input) in stage.inputs.iter().enumerate() {
            match &input.origin {
                Origin::Scan(_) => self.scan(number, input)?,
                Origin::Edge { .. } => self.edge(number, place, input)?,
            }
        }
        Ok(())
    }

    /// Opens the shards of a source for the channels of a stage.
    fn scan(&mut self, number: usize, input: &Input) -> Result<()> {
        let Origin::Scan(scan) = &input.origin else { return internal_err!("a scan is read here") };
        let dataset = dataset(scan.source.as_ref())?;
        self.rows_total = self.rows_total.zip(dataset.rows()).map(|(all, more)| all + more);
        let batch_rows = match self.programs.stages().stages[number].kind {
            Kind::Relational => self.options.batch_rows.min(RELATIONAL_ROWS),
            Kind::Temporal => self.options.batch_rows,
        };
        let is_paced = self.programs.stages().stages[number].kind == Kind::Temporal;
        for index in 0..self.programs.stages().stages[number].channels {
            let columns = scan.columns.as_deref();
            let lane = match &mut self.pace {
                Some(pace) if is_paced => {
                    let channel = &self.channels[self.first_channels[number] + index];
                    let shard = dataset.replayable(index, columns, batch_rows)?;
                    paced(pace, (channel.id, channel.lanes.len()), shard)
                }
                _ => {
                    let channel = &self.channels[self.first_channels[number] + index];
                    let shard = match channel.program.predicate(channel.lanes.len()) {
                        Some(predicate) => dataset.open_where(index, columns, batch_rows, predicate)?,
                        None => dataset.open(index, columns, batch_rows)?,
                    };
                    match shard {
                        Shard::Reader(reader) => Lane::Reader(reader),
                        Shard::Queue(queue) => Lane::Live { queue, columns: scan.columns.clone() },
                        Shard::Log(shard) => Lane::Growing(Box::new(GrowingLane::new(shard))),
                    }
                }
            };
            self.channels[self.first_channels[number] + index].add_lane(lane);
        }
        Ok(())
    }

    /// Gives the channels the states that they go on from.
    fn restore(&mut self) -> Result<()> {
        let Some(states) = self.pace.as_ref().and_then(|pace| pace.states.as_ref()) else { return Ok(()) };
        self.channels.iter_mut().try_for_each(|channel| channel.restore(states.get(&channel.id)))
    }

    /// Connects the channels of a stage to the producers of an input.
    fn edge(&mut self, number: usize, place: usize, input: &Input) -> Result<()> {
        let Origin::Edge { stage: from, output, exchange } = &input.origin else {
            return internal_err!("an edge is connected here");
        };
        let stages = &self.programs.stages().stages;
        let (stage, producers) = (&stages[number], &stages[*from]);
        let reach = self.programs.reach(number, input);
        let mut targets = vec![Vec::new(); producers.channels];
        for index in 0..stage.channels {
            for producer in reach.sources(index) {
                targets[producer].push(self.queues.len());
                let lane = Lane::Queue(self.queues.len());
                let consumer = self.first_channels[number] + index;
                self.channels[consumer].add_lane(lane);
                self.queues.push(Queue { producer: self.first_channels[*from] + producer, consumer });
            }
        }
        let output_rows = &producers.outputs[*output];
        let ends = output_rows.lifetimes == Lifetimes::Any;
        for (producer, targets) in targets.into_iter().enumerate() {
            let metrics = self.programs.edge_metrics(number, place).cloned();
            let partitioner = partitioner(exchange.as_deref(), producer, &output_rows.schema, ends)?;
            let route = Route::new(partitioner, targets, producers.kind == Kind::Relational, metrics);
            self.channels[self.first_channels[*from] + producer].outlets[*output].routes.push(route);
        }
        Ok(())
    }
}

/// A lane that is read in slices; it is the one of this channel and number.
fn paced(pace: &mut Pace, place: (ChannelId, usize), shard: ReplayableShard) -> Lane {
    let (source, lane) = PacedLane::new(pace.sources.len(), place, shard, pace.reports.clone());
    pace.sources.push(source);
    Lane::Paced(Box::new(lane))
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
