//! A query that is ready to run: channels with their programs, the sources of their lanes, the routes of
//! their outputs.
//!
//! Invariants: an edge has one queue from each producer to each of its consumers, so messages between two
//! channels stay in order. Where consumers read round-robin, a producer sends every consumer a message for
//! each batch, an empty one if need be.

use super::Control;
use crate::dataset::Reader;
use crate::exchange::Partitioner;
use crate::metrics::EdgeMetrics;
use crate::program::{ChannelProgram, Step};
use crate::relation::always;
use crossbeam_channel::Receiver;
use datafusion::common::{Result, internal_err};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use whimbrel_temporal::{Batch, INFINITY, Message};

/// Takes the messages of one shard of the result.
pub(crate) type Sink = Box<dyn FnMut(Message) -> Result<()> + Send>;

/// The number of a queue.
pub(crate) type QueueId = usize;

/// A query that is ready to run; a [`Runtime`](super::Runtime) runs it.
pub struct Wiring {
    pub(super) channels: Vec<Channel>,
    pub(super) queues: Vec<Queue>,
    pub(super) rows_total: Option<u64>,
}

/// One instance of a stage, with its program.
pub(super) struct Channel {
    /// Its name in messages.
    pub name: String,
    pub program: Box<dyn ChannelProgram>,
    pub lanes: Vec<Lane>,
    pub outlets: Vec<Outlet>,
    /// How many late rows have been counted.
    pub late: u64,
}

/// The source of a lane's messages.
pub(super) enum Lane {
    /// A shard that is read.
    Reader(Box<dyn Reader>),
    /// A shard of a live source, and which of its columns are used.
    Live { queue: Receiver<Message>, columns: Option<Vec<usize>> },
    /// A queue from another channel.
    Queue(QueueId),
}

/// The ends of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    /// The channel that fills it.
    pub producer: usize,
    /// The channel that reads it.
    pub consumer: usize,
}

/// The destinations of an output's messages.
#[derive(Default)]
pub(super) struct Outlet {
    pub routes: Vec<Route>,
    pub sink: Option<Sink>,
}

/// The way from one producer of an edge to its consumers.
pub(super) struct Route {
    partitioner: Box<dyn Partitioner>,
    /// The queue of each consumer.
    targets: Vec<QueueId>,
    /// The rows of the current batch for each consumer.
    parts: Vec<Option<Batch>>,
    /// Whether consumers without rows of a batch get an empty one.
    round_robin: bool,
    /// Counts what is sent, if that is measured.
    metrics: Option<Arc<EdgeMetrics>>,
}

impl Route {
    /// A route into these queues, which are read round-robin or by time.
    pub fn new(
        partitioner: Box<dyn Partitioner>,
        targets: Vec<QueueId>,
        round_robin: bool,
        metrics: Option<Arc<EdgeMetrics>>,
    ) -> Route {
        let parts = vec![None; targets.len()];
        Route { partitioner, round_robin: round_robin && targets.len() > 1, targets, parts, metrics }
    }

    /// Sends a message to its consumers.
    ///
    /// # Errors
    /// Those of the partitioner.
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
        let empty = batch.slice(0, 0);
        self.partitioner.partition(batch, &mut self.parts)?;
        for (queue, part) in self.targets.iter().zip(&mut self.parts) {
            match part.take() {
                Some(part) => {
                    self.metrics.iter().for_each(|metrics| metrics.add(&part.rows));
                    to(*queue, Message::Batch(part));
                }
                None if self.round_robin => to(*queue, Message::Batch(empty.clone())),
                None => {}
            }
        }
        Ok(())
    }

    /// The queues of the consumers.
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
    /// Steps the program; counts late rows and hands them to their callback.
    ///
    /// # Errors
    /// Those of the program.
    pub fn step(&mut self, out: &mut Vec<(usize, Message)>, control: &Control) -> Result<Step> {
        let step = self.program.step(out)?;
        let late = self.program.rows_late();
        if late != self.late {
            control.rows_late.fetch_add(late - self.late, Ordering::Relaxed);
            self.late = late;
            let rows = self.program.take_late();
            if let Some(callback) = &control.late {
                rows.into_iter().for_each(|rows| callback(rows));
            }
        }
        Ok(step)
    }

    /// Delivers what came out of a step to queues and sinks.
    ///
    /// # Errors
    /// Those of partitioners and sinks.
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

    /// Whether the channel makes a part of the result.
    pub fn has_sink(&self) -> bool {
        self.outlets.iter().any(|o| o.sink.is_some())
    }
}

impl Lane {
    /// The next rows of a reader; none at its end.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn read(&mut self, control: &Control) -> Result<Option<Message>> {
        let Lane::Reader(reader) = self else { return internal_err!("only a reader is read") };
        let rows = reader.next()?;
        if let Some(rows) = &rows {
            control.rows_read.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        }
        Ok(rows.map(always))
    }
}

/// A message of a live source as its channel takes it; none at the end of the source.
///
/// # Errors
/// If the rows have too few columns.
pub(super) fn live_message(
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
