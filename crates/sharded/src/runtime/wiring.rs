//! A query ready to run: programs, where their lanes come from, where their outputs go.
//!
//! Invariants: there is one queue from a producer to a consumer of an edge, so what flows between two
//! channels stays in order; a producer that tells anything tells all of its targets, an empty message where
//! relations are read in turn.

use super::Control;
use crate::dataset::Reader;
use crate::exchange::Spread;
use crate::metrics::EdgeMetrics;
use crate::program::{ChannelProgram, Step};
use crate::relation::always;
use crossbeam_channel::Receiver;
use datafusion::common::{Result, internal_err};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use whimbrel_temporal::{Batch, INFINITY, Message};

/// Gets the messages of one shard of the result.
pub(crate) type Sink = Box<dyn FnMut(Message) -> Result<()> + Send>;

/// The number of a queue.
pub(crate) type QueueId = usize;

/// A query ready to run.
pub struct Wiring {
    pub(super) channels: Vec<Channel>,
    pub(super) queues: Vec<Queue>,
    pub(super) rows_total: Option<u64>,
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
    /// The channel that reads it.
    pub consumer: usize,
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
    /// Counts what is sent, if that is measured.
    metrics: Option<Arc<EdgeMetrics>>,
}

impl Route {
    /// An edge to these targets, which are read `in_turn` or by time.
    pub fn new(
        spread: Box<dyn Spread>,
        targets: Vec<QueueId>,
        in_turn: bool,
        metrics: Option<Arc<EdgeMetrics>>,
    ) -> Route {
        let parts = vec![None; targets.len()];
        Route { spread, in_turn: in_turn && targets.len() > 1, targets, parts, metrics }
    }

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
                Some(part) => {
                    self.metrics.iter().for_each(|metrics| metrics.add(&part.rows));
                    to(*queue, Message::Batch(part));
                }
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
    /// How many rows will be read, if that is known of all sources.
    pub fn rows_total(&self) -> Option<u64> {
        self.rows_total
    }
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
