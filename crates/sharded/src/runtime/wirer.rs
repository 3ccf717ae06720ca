//! Wiring stage after stage: programs are made, sources opened, and channels connected to those of earlier
//! stages.

use super::wiring::{Channel, Lane, Outlet, Queue, Route, Wiring};
use crate::dataset::{Shard, dataset};
use crate::exchange::spread;
use crate::options::Options;
use crate::program::{ChannelProgram, Programs};
use crate::stage::{Input, Kind, Origin};
use datafusion::common::{Result, internal_err};
use std::panic::resume_unwind;
use whimbrel_temporal::Lifetimes;

/// The most rows that are read at once where DataFusion's operators work on them, which keep the columns that they
/// compute: those have to fit into the cache.
const RELATIONAL_ROWS: usize = 16_384;

/// Wires stage after stage.
pub(super) struct Wirer<'a> {
    programs: &'a Programs,
    options: &'a Options,
    /// Those of the channels that are not wired yet, in order.
    made: std::vec::IntoIter<Box<dyn ChannelProgram>>,
    first_channels: Vec<usize>,
    channels: Vec<Channel>,
    queues: Vec<Queue>,
    rows_total: Option<u64>,
}

impl<'a> Wirer<'a> {
    /// # Errors
    /// `Plan` if a channel cannot have a program.
    pub fn new(programs: &'a Programs, options: &'a Options) -> Result<Wirer<'a>> {
        let channels = programs.stages().stages.iter().map(|s| s.channels);
        let first_channels = channels.scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n))).collect();
        let made = made(programs, options)?.into_iter();
        let (channels, queues, rows_total) = (vec![], vec![], Some(0));
        Ok(Wirer { programs, options, made, first_channels, channels, queues, rows_total })
    }

    /// Makes the channels of a stage and connects them to those of earlier stages.
    pub fn stage(&mut self, number: usize) -> Result<()> {
        let stage = &self.programs.stages().stages[number];
        for index in 0..stage.channels {
            let Some(program) = self.made.next() else {
                return internal_err!("stage {number} has no program for channel {index}");
            };
            let outlets = stage.outputs.iter().map(|_| Outlet::default()).collect();
            let name = format!("stage {number} channel {index}");
            self.channels.push(Channel { name, program, lanes: vec![], outlets, late: 0 });
        }
        for (place, input) in stage.inputs.iter().enumerate() {
            match &input.origin {
                Origin::Scan(_) => self.scan(number, input)?,
                Origin::Edge { .. } => self.edge(number, place, input)?,
            }
        }
        Ok(())
    }

    fn scan(&mut self, number: usize, input: &Input) -> Result<()> {
        let Origin::Scan(scan) = &input.origin else { return internal_err!("a scan is read here") };
        let dataset = dataset(scan.source.as_ref())?;
        self.rows_total = self.rows_total.zip(dataset.rows()).map(|(all, more)| all + more);
        let batch_rows = match self.programs.stages().stages[number].kind {
            Kind::Relational => self.options.batch_rows.min(RELATIONAL_ROWS),
            Kind::Temporal => self.options.batch_rows,
        };
        for index in 0..self.programs.stages().stages[number].channels {
            let channel = &mut self.channels[self.first_channels[number] + index];
            let columns = scan.columns.as_deref();
            let shard = match channel.program.predicate(channel.lanes.len()) {
                Some(predicate) => dataset.open_where(index, columns, batch_rows, predicate)?,
                None => dataset.open(index, columns, batch_rows)?,
            };
            let lane = match shard {
                Shard::Reader(reader) => Lane::Reader(reader),
                Shard::Queue(queue) => Lane::Live { queue, columns: scan.columns.clone() },
            };
            channel.lanes.push(lane);
        }
        Ok(())
    }

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
                self.channels[consumer].lanes.push(lane);
                self.queues.push(Queue { producer: self.first_channels[*from] + producer, consumer });
            }
        }
        let made = &producers.outputs[*output];
        let ends = made.lifetimes == Lifetimes::Any;
        for (producer, targets) in targets.into_iter().enumerate() {
            let moved = self.programs.moved(number, place).cloned();
            let spread = spread(exchange.as_deref(), producer, &made.schema, ends)?;
            let route = Route::new(spread, targets, producers.kind == Kind::Relational, moved);
            self.channels[self.first_channels[*from] + producer].outlets[*output].routes.push(route);
        }
        Ok(())
    }

    pub fn finish(self) -> Wiring {
        Wiring { channels: self.channels, queues: self.queues, rows_total: self.rows_total }
    }
}

/// The programs of all channels, stage after stage. To plan DataFusion's operators takes longer than many a query runs, so
/// where threads may be used it is shared out among them; our own are made in less time than a thread.
fn made(programs: &Programs, options: &Options) -> Result<Vec<Box<dyn ChannelProgram>>> {
    let stages = programs.stages().stages.iter().enumerate();
    let channels: Vec<(usize, usize)> =
        stages.flat_map(|(stage, s)| (0..s.channels).map(move |index| (stage, index))).collect();
    let make = |&(stage, index): &(usize, usize)| programs.channel(stage, index);
    let relational = programs.stages().stages.iter().filter(|stage| stage.kind == Kind::Relational);
    let threads = options.runtime.cores().min(relational.map(|stage| stage.channels).sum());
    if threads <= 1 {
        return channels.iter().map(make).collect();
    }
    // Neighbours are of one stage and so alike: each thread gets its share of each stage.
    let share = |thread: usize| channels.iter().skip(thread).step_by(threads).map(make).collect();
    let shares: Vec<Result<Vec<_>>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        let own = share(0);
        let joined =
            others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        std::iter::once(own).chain(joined).collect()
    });
    let mut shares = shares.into_iter().map(|share| Ok(share?.into_iter())).collect::<Result<Vec<_>>>()?;
    let in_turns = (0..channels.len()).filter_map(|channel| shares[channel % threads].next());
    Ok(in_turns.collect())
}
