//! The local runtime: one thread per channel, with bounded queues between them (quill.txt §4.2).
//!
//! A consumer takes from the lane that its channel wants; where any lane will do, from one that has a
//! message. A producer first delivers to all consumers that have room, punctuations last, and then waits
//! for the others. So consumers learn of progress early, and queues rarely need more room than they have
//! (see [`Queues`]).
//!
//! A channel that fails stops all others before it closes its queues, so no consumer takes that for the
//! end of its input.

use super::channel::Channel;
use super::lane::{Item, Poll, QueueId};
use super::pool;
use super::queues::{Queues, Stopped};
use super::{Control, Execution, Progress, Runtime, Wiring};
use crate::error::panicked;
use crossbeam_channel::{Receiver, RecvTimeoutError, Select, Sender, bounded};
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
        let outgoing = channel.targets().map(|queue| (queue, VecDeque::new())).collect();
        Worker { number, channel, queues, outbox: Outbox { outgoing }, control }
    }

    /// Runs the channel to its end; `running` is dropped then.
    fn run(mut self, running: Sender<Infallible>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.drive()));
        match outcome {
            Ok(Ok(()) | Err(Halt::Stopped)) => {}
            Ok(Err(Halt::Failed(error))) => self.control.fail(error),
            Err(panic) => self.control.fail(panicked(&self.channel.id.to_string(), panic)),
        }
        self.queues.close(self.number);
        drop(self);
        drop(running);
    }

    /// Steps the channel until it ends.
    fn drive(&mut self) -> Result<(), Halt> {
        let mut out = Vec::new();
        loop {
            if self.control.is_stopped() {
                return Err(Halt::Stopped);
            }
            let Worker { channel, outbox, control, .. } = self;
            channel.step(&mut out, control, |queue, item| outbox.put(queue, item))?;
            self.send()?;
            if self.channel.has_ended() {
                return self.finish();
            }
            if self.consumers_are_gone() {
                self.channel.abandon();
                return Ok(());
            }
            if !self.channel.wanted().is_empty() {
                let (lane, item) = self.fetch()?;
                self.channel.take(lane, item)?;
            }
        }
    }

    /// The next item of one of the lanes that the channel wants; waits for it.
    fn fetch(&mut self) -> Result<(usize, Item), Halt> {
        loop {
            for number in 0..self.channel.wanted().len() {
                let lane = self.channel.wanted()[number];
                match self.channel.lanes[lane].poll(&self.control)? {
                    Poll::Item(item) => return Ok((lane, item)),
                    Poll::Queue(queue) => return Ok((lane, self.queues.receive(queue)?)),
                    Poll::Nothing => {}
                }
            }
            self.wait()?;
        }
    }

    /// Waits until one of the lanes that the channel wants may have something.
    fn wait(&self) -> Result<(), Halt> {
        let mut select = Select::new();
        let stopped = select.recv(self.control.stopped());
        self.channel.wanted().iter().for_each(|lane| self.channel.lanes[*lane].wake(&mut select));
        match select.ready() {
            ready if ready == stopped => Err(Halt::Stopped),
            _ => Ok(()),
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
