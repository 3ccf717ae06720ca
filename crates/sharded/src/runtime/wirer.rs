//! Wiring stage after stage: programs are made, sources opened, and channels connected to those of earlier
//! stages.

use super::wiring::{Channel, Lane, Outlet, Queue, Route, Wiring};
use crate::dataset::{Shard, dataset};
use crate::exchange::{Reach, spread};
use crate::lower::{Fragment, graph, session};
use crate::merge::Gather;
use crate::options::Options;
use crate::program::{ChannelProgram, Entry, RelationalProgram, TemporalProgram};
use crate::stage::{Input, Kind, Origin, Stage, StageGraph};
use datafusion::common::{Result, internal_err};
use whimbrel_plan::nodes::Ingress;
use whimbrel_temporal::operators::CoalesceOrder;
use whimbrel_temporal::{IngressOptions, Lifetimes, TimeColumns};

/// Wires stage after stage.
pub(super) struct Wirer<'a> {
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
    pub fn new(stages: &'a StageGraph, options: &'a Options, live: bool) -> Wirer<'a> {
        let channels = stages.stages.iter().map(|s| s.channels);
        let first_channels = channels.scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n))).collect();
        Wirer { stages, options, first_channels, channels: vec![], queues: vec![], rows_total: Some(0), live }
    }

    /// Makes the channels of a stage and connects them to those of earlier stages.
    pub fn stage(&mut self, number: usize, coalesce: Option<(usize, CoalesceOrder)>) -> Result<()> {
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

    fn relational(
        &self,
        stage: &Stage,
        fragment: &Fragment,
        index: usize,
    ) -> Result<Box<dyn ChannelProgram>> {
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
                Reach::of(exchange.as_deref(), from.channels, stage.channels, from.groups)
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
        let mut targets = vec![Vec::new(); producers.channels];
        for index in 0..stage.channels {
            for producer in reach.sources(index) {
                targets[producer].push(self.queues.len());
                let lane = Lane::Queue(self.queues.len());
                let consumer = self.first_channels[number] + index;
                self.channels[consumer].lanes.push(lane);
                self.queues.push(Queue { producer: self.first_channels[*from] + producer, consumer });
            }
        }
        let made = &producers.outputs[*output];
        let ends = made.lifetimes == Lifetimes::Any;
        for (producer, targets) in targets.into_iter().enumerate() {
            let spread = spread(exchange.as_deref(), producer, &made.schema, ends)?;
            let route = Route::new(spread, targets, producers.kind == Kind::Relational);
            self.channels[self.first_channels[*from] + producer].outlets[*output].routes.push(route);
        }
        Ok(())
    }

    pub fn finish(self) -> Wiring {
        Wiring { channels: self.channels, queues: self.queues, rows_total: self.rows_total }
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
    let options =
        IngressOptions { batch_rows: node.options.batch_rows.min(batch_rows), ..node.options.clone() };
    whimbrel_temporal::Ingress::new(columns, options, input.schema.inner().clone())
}
