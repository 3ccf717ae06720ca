//! A query ready to run: programs, where their lanes come from, where their outputs go.
//!
//! Invariants: there is one queue from a producer to a consumer of an edge, so what flows between two channels stays in
//! order; a producer that tells anything tells all of its targets, an empty message where relations are read in turn.

use super::{Control, Order};
use crate::dataset::{Reader, Shard, dataset};
use crate::exchange::{Reach, Spread, spread};
use crate::lower::{Fragment, graph, session};
use crate::merge::Gather;
use crate::options::{Options, Output};
use crate::program::{ChannelProgram, Entry, RelationalProgram, Step, TemporalProgram};
use crate::relation::always;
use crate::stage::{Input, Kind, Origin, Stage, StageGraph, cut, prune};
use crossbeam_channel::Receiver;
use datafusion::common::{Result, internal_err, plan_err};
use std::sync::atomic::Ordering;
use whimbrel_plan::Stream;
use whimbrel_plan::nodes::Ingress;
use whimbrel_temporal::operators::CoalesceOrder;
use whimbrel_temporal::{Batch, INFINITY, IngressOptions, Lifetimes, Message, TimeColumns};

/// Gets the messages of one shard of the result.
pub(crate) type Sink = Box<dyn FnMut(Message) -> Result<()> + Send>;

/// The number of a queue.
pub(crate) type QueueId = usize;

/// A query ready to run.
pub struct Wiring {
    pub(super) channels: Vec<Channel>,
    pub(super) queues: Vec<Queue>,
    rows_total: Option<u64>,
}

/// One instance of a stage.
pub(super) struct Channel {
    /// For messages and names of threads.
    pub name: String,
    pub program: Box<dyn ChannelProgram>,
    pub lanes: Vec<Lane>,
    pub outlets: Vec<Outlet>,
    /// Rows that came too late, as far as they were counted.
    pub late: u64,
}

/// Where a lane's messages come from.
pub(super) enum Lane {
    Reader(Box<dyn Reader>),
    Live { queue: Receiver<Message>, columns: Option<Vec<usize>> },
    Queue(QueueId),
}

/// What a queue connects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    /// The channel that fills it.
    pub producer: usize,
    /// Whether its producer may have to wait. Where a stage feeds several edges, waiting for one of their readers could
    /// keep another one waiting that the first depends on.
    pub bounded: bool,
}

/// Where an output's messages go.
#[derive(Default)]
pub(super) struct Outlet {
    pub routes: Vec<Route>,
    pub sink: Option<Sink>,
}

/// One edge, seen from one of its producers.
pub(super) struct Route {
    spread: Box<dyn Spread>,
    targets: Vec<QueueId>,
    parts: Vec<Option<Batch>>,
    /// Whether targets that get no rows of a batch get an empty one.
    in_turn: bool,
}

impl Route {
    /// Sends a message to the queues it belongs into.
    pub fn send(&mut self, message: &Message, mut to: impl FnMut(QueueId, Message)) -> Result<()> {
        let batch = match message {
            Message::Punctuation(_) => {
                self.targets.iter().for_each(|queue| to(*queue, message.clone()));
                return Ok(());
            }
            Message::Batch(batch) => batch.clone().compact()?,
        };
        if batch.is_empty() {
            return Ok(());
        }
        let none = batch.slice(0, 0);
        self.spread.spread(batch, &mut self.parts)?;
        for (queue, part) in self.targets.iter().zip(&mut self.parts) {
            match part.take() {
                Some(part) => to(*queue, Message::Batch(part)),
                None if self.in_turn => to(*queue, Message::Batch(none.clone())),
                None => {}
            }
        }
        Ok(())
    }

    pub fn targets(&self) -> &[QueueId] {
        &self.targets
    }
}

impl Wiring {
    /// Cuts, lowers and wires a query.
    pub(crate) fn of(stream: &Stream, options: &Options, order: Order, sinks: Vec<Sink>) -> Result<Wiring> {
        let stages = cut(&prune(stream.plan())?)?;
        let result = &stages.stages[stages.result.0];
        if sinks.len() != result.channels {
            return plan_err!("the result has {} shards, but there are {} sinks", result.channels, sinks.len());
        }
        let known = stream.properties();
        let coalesces = options.output == Output::Intervals && known.lifetimes == Lifetimes::Any;
        let coalesce = (coalesces && result.kind == Kind::Temporal).then_some(match order {
            Order::AsKnown if !known.bounded => CoalesceOrder::Known,
            _ => CoalesceOrder::Start,
        });
        let mut wirer = Wirer::new(&stages, options, !known.bounded);
        for stage in 0..stages.stages.len() {
            let coalesce = coalesce.filter(|_| stage == stages.result.0).map(|order| (stages.result.1, order));
            wirer.stage(stage, coalesce)?;
        }
        let mut wiring = wirer.finish()?;
        let first = wiring.first_channel(&stages, stages.result.0);
        for (shard, sink) in sinks.into_iter().enumerate() {
            wiring.channels[first + shard].outlets[stages.result.1].sink = Some(sink);
        }
        Ok(wiring)
    }

    /// How many rows will be read, if that is known of all sources.
    pub fn rows_total(&self) -> Option<u64> {
        self.rows_total
    }

    fn first_channel(&self, stages: &StageGraph, stage: usize) -> usize {
        stages.stages[..stage].iter().map(|s| s.channels).sum()
    }
}

/// Wires stage after stage.
struct Wirer<'a> {
    stages: &'a StageGraph,
    options: &'a Options,
    first_channels: Vec<usize>,
    channels: Vec<Channel>,
    queues: Vec<Queue>,
    rows_total: Option<u64>,
    /// Whether the query does not end by itself.
    live: bool,
}

impl<'a> Wirer<'a> {
    fn new(stages: &'a StageGraph, options: &'a Options, live: bool) -> Wirer<'a> {
        let channels = stages.stages.iter().map(|s| s.channels);
        let first_channels = channels.scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n))).collect();
        Wirer { stages, options, first_channels, channels: vec![], queues: vec![], rows_total: Some(0), live }
    }

    /// Makes the channels of a stage and connects them to those of earlier stages.
    fn stage(&mut self, number: usize, coalesce: Option<(usize, CoalesceOrder)>) -> Result<()> {
        let stage = &self.stages.stages[number];
        let fragment = match stage.kind {
            Kind::Relational => Some(Fragment::of(stage)?),
            Kind::Temporal => None,
        };
        for index in 0..stage.channels {
            let program = match &fragment {
                Some(fragment) => self.relational(stage, fragment, index)?,
                None => self.temporal(number, index, coalesce)?,
            };
            let outlets = stage.outputs.iter().map(|_| Outlet::default()).collect();
            let name = format!("stage {number} channel {index}");
            self.channels.push(Channel { name, program, lanes: vec![], outlets, late: 0 });
        }
        for input in &stage.inputs {
            match &input.origin {
                Origin::Scan(_) => self.scan(number, input)?,
                Origin::Edge { .. } => self.edge(number, input)?,
            }
        }
        Ok(())
    }

    fn relational(&self, stage: &Stage, fragment: &Fragment, index: usize) -> Result<Box<dyn ChannelProgram>> {
        let lanes = stage.inputs.iter().map(|input| self.lanes(stage, input, index)).collect::<Vec<_>>();
        Ok(Box::new(RelationalProgram::new(&fragment.plan, session(), &lanes, stage.outputs.len())?))
    }

    fn temporal(
        &self,
        number: usize,
        index: usize,
        coalesce: Option<(usize, CoalesceOrder)>,
    ) -> Result<Box<dyn ChannelProgram>> {
        let stage = &self.stages.stages[number];
        let entries = stage.inputs.iter().map(|input| {
            let lanes = self.lanes(stage, input, index);
            Ok((self.entry(input, lanes)?, lanes))
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        // Who reads an exchange, or a live result, waits for news of time.
        let announce = self.live || self.stages.edges_out(number) > 0;
        Ok(Box::new(TemporalProgram::new(entries, graph(stage, coalesce)?, announce)))
    }

    fn entry(&self, input: &Input, lanes: usize) -> Result<Entry> {
        if let Some(ingress) = &input.ingress {
            return Ok(Entry::ingress(lanes, events(ingress, input, self.options.batch_rows)?));
        }
        let relation = match &input.origin {
            Origin::Scan(_) => true,
            Origin::Edge { stage, .. } => self.stages.stages[*stage].kind == Kind::Relational,
        };
        Ok(Entry::Merge { gather: Gather::new(lanes, self.options.batch_rows), relation })
    }

    fn lanes(&self, stage: &Stage, input: &Input, index: usize) -> usize {
        match &input.origin {
            Origin::Scan(_) => 1,
            Origin::Edge { .. } => self.reach(stage, input).sources(index).len(),
        }
    }

    fn reach(&self, stage: &Stage, input: &Input) -> Reach {
        match &input.origin {
            Origin::Scan(_) => Reach::of(None, stage.channels, stage.channels, 1),
            Origin::Edge { stage: from, exchange, .. } => {
                let from = &self.stages.stages[*from];
                Reach::of(exchange.as_ref(), from.channels, stage.channels, from.groups)
            }
        }
    }

    fn scan(&mut self, number: usize, input: &Input) -> Result<()> {
        let Origin::Scan(scan) = &input.origin else { return internal_err!("a scan is read here") };
        let dataset = dataset(scan.source.as_ref())?;
        self.rows_total = self.rows_total.zip(dataset.rows()).map(|(all, more)| all + more);
        for index in 0..self.stages.stages[number].channels {
            let shard = dataset.open(index, scan.columns.as_deref(), self.options.batch_rows)?;
            let lane = match shard {
                Shard::Reader(reader) => Lane::Reader(reader),
                Shard::Queue(queue) => Lane::Live { queue, columns: scan.columns.clone() },
            };
            self.channels[self.first_channels[number] + index].lanes.push(lane);
        }
        Ok(())
    }

    fn edge(&mut self, number: usize, input: &Input) -> Result<()> {
        let Origin::Edge { stage: from, output, exchange } = &input.origin else {
            return internal_err!("an edge is connected here");
        };
        let (stage, producers) = (&self.stages.stages[number], &self.stages.stages[*from]);
        let reach = self.reach(stage, input);
        let bounded = self.stages.edges_out(*from) <= 1;
        let mut targets = vec![Vec::new(); producers.channels];
        for index in 0..stage.channels {
            for producer in reach.sources(index) {
                targets[producer].push(self.queues.len());
                let lane = Lane::Queue(self.queues.len());
                self.channels[self.first_channels[number] + index].lanes.push(lane);
                self.queues.push(Queue { producer: self.first_channels[*from] + producer, bounded });
            }
        }
        let made = &producers.outputs[*output];
        let ends = made.lifetimes == Lifetimes::Any;
        for (producer, targets) in targets.into_iter().enumerate() {
            let route = Route {
                spread: spread(exchange.as_ref(), producer, &made.schema, ends)?,
                parts: vec![None; targets.len()],
                in_turn: producers.kind == Kind::Relational && targets.len() > 1,
                targets,
            };
            self.channels[self.first_channels[*from] + producer].outlets[*output].routes.push(route);
        }
        Ok(())
    }

    fn finish(self) -> Result<Wiring> {
        Ok(Wiring { channels: self.channels, queues: self.queues, rows_total: self.rows_total })
    }
}

/// The ingress that a node asks for.
fn events(node: &Ingress, input: &Input, batch_rows: usize) -> Result<whimbrel_temporal::Ingress> {
    let place = |name: &String| match input.schema.index_of_column_by_name(None, name) {
        Some(place) => Ok(place),
        None => internal_err!("the time column `{name}` is gone"),
    };
    let start = place(&node.time.start)?;
    let columns = match (&node.time.end, &node.time.kind) {
        (None, _) => TimeColumns::Point { start },
        (Some(end), None) => TimeColumns::Interval { start, end: place(end)? },
        (Some(end), Some(kind)) => TimeColumns::Edges { start, end: place(end)?, kind: place(kind)? },
    };
    let options = IngressOptions { batch_rows: node.options.batch_rows.min(batch_rows), ..node.options.clone() };
    whimbrel_temporal::Ingress::new(columns, options, input.schema.inner().clone())
}

impl Channel {
    /// One step of the program; rows that came too late are counted and shown.
    pub fn step(&mut self, out: &mut Vec<(usize, Message)>, control: &Control) -> Result<Step> {
        let step = self.program.step(out)?;
        let late = self.program.rows_late();
        if late != self.late {
            control.rows_late.fetch_add(late - self.late, Ordering::Relaxed);
            self.late = late;
            let rows = self.program.take_late();
            if let Some(show) = &control.late {
                rows.into_iter().for_each(|rows| show(rows));
            }
        }
        Ok(step)
    }

    /// Takes what came out to where it belongs.
    pub fn deliver(
        &mut self,
        out: &mut Vec<(usize, Message)>,
        control: &Control,
        mut to: impl FnMut(QueueId, Message),
    ) -> Result<()> {
        for (output, message) in out.drain(..) {
            let Outlet { routes, sink } = &mut self.outlets[output];
            for route in routes {
                route.send(&message, &mut to)?;
            }
            let Some(sink) = sink else { continue };
            if control.is_stopped() {
                return Ok(());
            }
            let message = match message {
                Message::Batch(batch) => Message::Batch(batch.compact()?),
                punctuation => punctuation,
            };
            if let Message::Batch(batch) = &message {
                control.rows_out.fetch_add(batch.len() as u64, Ordering::Relaxed);
            }
            sink(message)?;
        }
        Ok(())
    }

    pub fn has_sink(&self) -> bool {
        self.outlets.iter().any(|o| o.sink.is_some())
    }
}

impl Lane {
    /// The next rows of a reader.
    pub fn read(&mut self, control: &Control) -> Result<Option<Message>> {
        let Lane::Reader(reader) = self else { return internal_err!("only a reader is read") };
        let rows = reader.next()?;
        if let Some(rows) = &rows {
            control.rows_read.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        }
        Ok(rows.map(always))
    }
}

/// A message from a live source as its channel gets it; none at the end of the source.
pub(super) fn live(
    message: Option<Message>,
    columns: Option<&[usize]>,
    control: &Control,
) -> Result<Option<Message>> {
    Ok(match message {
        None | Some(Message::Punctuation(INFINITY)) => None,
        Some(Message::Batch(batch)) => {
            control.rows_read.fetch_add(batch.len() as u64, Ordering::Relaxed);
            Some(match columns {
                Some(columns) => always(batch.rows.project(columns)?),
                None => Message::Batch(batch),
            })
        }
        punctuation => punctuation,
    })
}
