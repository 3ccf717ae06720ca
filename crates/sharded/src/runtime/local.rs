//! The local runtime: one thread per channel, with bounded queues between them (quill.txt §4.2).
//!
//! A consumer takes from the lane that its program needs; where any lane will do, from one that has a
//! message. A producer first delivers to all consumers that have room, punctuations last, and then waits for
//! the others. So consumers learn of progress early, and queues rarely need more room than they have (see
//! [`Queues`]).
//!
//! A channel that fails stops all others before it closes its queues, so no consumer takes that for the end
//! of its input.

use super::pool;
use super::queues::{Item, Queues, Stopped};
use super::wiring::{Channel, Lane, QueueId};
use super::{Control, Execution, Progress, Runtime, Wiring};
use crate::error::panicked;
use crate::program::Step;
use crossbeam_channel::{Receiver, RecvTimeoutError, Select, Sender, bounded, select_biased};
use datafusion::common::{DataFusionError, Result};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use whimbrel_temporal::Message;

/// The runtime that runs each channel on a thread of its own.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// How many messages a queue holds.
    pub queue_capacity: usize,
}

impl Runtime for Local {
    fn start(&self, wiring: Wiring, progress: Progress) -> Result<Box<dyn Execution>> {
        let control = progress.control().clone();
        let queues = Arc::new(Queues::new(&wiring.queues, wiring.channels.len(), self.queue_capacity));
        let stop = queues.clone();
        control.on_stop(Box::new(move || stop.stop()));
        let (running, ended) = bounded(0);
        for (number, channel) in wiring.channels.into_iter().enumerate() {
            let worker = Worker::new(number, channel, queues.clone(), control.clone());
            let running = running.clone();
            if let Err(error) = pool::spawn(move || worker.run(running)) {
                let error = format!("no thread for channel {number} of the query: {error}");
                control.fail(DataFusionError::ResourcesExhausted(error));
                break;
            }
        }
        Ok(Box::new(Threads { ended, control }))
    }
}

/// The threads of a job.
struct Threads {
    /// Disconnected once all of them have ended.
    ended: Receiver<Infallible>,
    control: Arc<Control>,
}

impl Execution for Threads {
    fn wait(&mut self, until: Option<Instant>) -> Result<bool> {
        let ended = match until {
            Some(until) => self.ended.recv_deadline(until).err() == Some(RecvTimeoutError::Disconnected),
            None => self.ended.recv().is_err(),
        };
        if !ended {
            return Ok(false);
        }
        // A panic was caught where it happened and is the job's error.
        match self.control.take_error() {
            Some(error) => Err(error),
            None => Ok(true),
        }
    }
}

/// A channel on its thread.
struct Worker {
    number: usize,
    channel: Channel,
    queues: Arc<Queues>,
    outbox: Outbox,
    control: Arc<Control>,
}

/// Why a channel ends early.
enum Halt {
    Stopped,
    Failed(DataFusionError),
}

impl From<DataFusionError> for Halt {
    fn from(error: DataFusionError) -> Halt {
        Halt::Failed(error)
    }
}

impl From<Stopped> for Halt {
    fn from(_: Stopped) -> Halt {
        Halt::Stopped
    }
}

impl Worker {
    /// A channel with its queues, before it runs.
    fn new(number: usize, channel: Channel, queues: Arc<Queues>, control: Arc<Control>) -> Worker {
        let routes = channel.outlets.iter().flat_map(|outlet| &outlet.routes);
        let outgoing =
            routes.flat_map(|route| route.targets()).map(|queue| (*queue, VecDeque::new())).collect();
        Worker { number, channel, queues, outbox: Outbox { outgoing }, control }
    }

    /// Runs the channel to its end; `running` is dropped then.
    fn run(mut self, running: Sender<Infallible>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.drive()));
        match outcome {
            Ok(Ok(()) | Err(Halt::Stopped)) => {}
            Ok(Err(Halt::Failed(error))) => self.control.fail(error),
            Err(panic) => self.control.fail(panicked(&self.channel.name, panic)),
        }
        self.queues.close(self.number);
        drop(self);
        drop(running);
    }

    /// Steps the program until it ends.
    fn drive(&mut self) -> Result<(), Halt> {
        let mut out = Vec::new();
        loop {
            if self.control.is_stopped() {
                return Err(Halt::Stopped);
            }
            let step = self.channel.step(&mut out, &self.control)?;
            let Worker { channel, outbox, control, .. } = self;
            channel.deliver(&mut out, control, |queue, message| outbox.put(queue, Item::Message(message)))?;
            self.send()?;
            if self.consumers_are_gone() {
                return Ok(());
            }
            match step {
                Step::Ready => {}
                Step::Ended => return self.finish(),
                Step::Needs(lane) => match self.fetch(lane)? {
                    Some(message) => self.channel.program.push(lane, message)?,
                    None => self.channel.program.end(lane)?,
                },
                Step::NeedsAny => {
                    let lane = self.first_ready_lane()?;
                    match self.fetch(lane)? {
                        Some(message) => self.channel.program.push(lane, message)?,
                        None => self.channel.program.end(lane)?,
                    }
                }
            }
        }
    }

    /// The first of the lanes lanes that has a message, or has ended.
    fn first_ready_lane(&self) -> Result<usize, Halt> {
        let lanes = self.channel.program.candidate_lanes();
        let mut select = Select::new();
        let stopped = select.recv(self.control.stopped());
        for lane in &lanes {
            match &self.channel.lanes[*lane] {
                Lane::Live { queue, .. } => select.recv(queue),
                // Only live lanes make a channel wait here.
                _ => return Ok(*lane),
            };
        }
        match select.ready() {
            ready if ready == stopped => Err(Halt::Stopped),
            ready => Ok(lanes[ready - 1]),
        }
    }

    /// The next message of a lane; none at its end.
    fn fetch(&mut self, lane: usize) -> Result<Option<Message>, Halt> {
        match &mut self.channel.lanes[lane] {
            lane @ Lane::Reader(_) => Ok(lane.read(&self.control)?),
            Lane::Live { queue, columns } => {
                let message = select_biased! {
                    recv(self.control.stopped()) -> _ => return Err(Halt::Stopped),
                    // A sender that was dropped has closed its shard.
                    recv(queue) -> message => message.ok(),
                };
                Ok(super::wiring::live_message(message, columns.as_deref(), &self.control)?)
            }
            Lane::Queue(queue) => match self.queues.receive(*queue)? {
                Item::Message(message) => Ok(Some(message)),
                Item::End => Ok(None),
            },
        }
    }

    /// Puts the outgoing messages into their queues.
    fn send(&mut self) -> Result<(), Stopped> {
        match self.outbox.outgoing.iter().all(|(_, items)| items.is_empty()) {
            true => Ok(()),
            false => self.queues.send(self.number, &mut self.outbox.outgoing),
        }
    }

    /// Whether all consumers have ended, and there is no sink.
    fn consumers_are_gone(&self) -> bool {
        let targets = || self.outbox.outgoing.iter().map(|(queue, _)| *queue);
        !self.channel.has_sink() && self.queues.are_closed(targets())
    }

    /// Sends the end to all consumers.
    fn finish(&mut self) -> Result<(), Halt> {
        self.outbox.outgoing.iter_mut().for_each(|(_, items)| items.push_back(Item::End));
        Ok(self.send()?)
    }
}

/// The messages that a channel has to send, by queue.
struct Outbox {
    outgoing: Vec<(QueueId, VecDeque<Item>)>,
}

impl Outbox {
    /// Adds a message. A punctuation replaces the one before it.
    fn put(&mut self, queue: QueueId, item: Item) {
        // A channel has few consumers: a search is fast enough.
        let Some((_, items)) = self.outgoing.iter_mut().find(|(target, _)| *target == queue) else { return };
        if let (Some(Item::Message(Message::Punctuation(last))), Item::Message(Message::Punctuation(time))) =
            (items.back_mut(), &item)
        {
            *last = (*last).max(*time);
            return;
        }
        items.push_back(item);
    }
}
