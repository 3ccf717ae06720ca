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
use super::drive::{Carrier, Halt, drive};
use super::lane::Item;
use super::pool;
use super::queues::{Queues, Stopped};
use super::topology::QueueId;
use super::{Control, Execution, Progress, Runtime, Wiring};
use crate::error::panicked;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
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
    outbox: Outbox,
    control: Arc<Control>,
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
        Worker { number, channel, outbox: Outbox { number, queues, outgoing }, control }
    }

    /// Runs the channel to its end; `running` is dropped then.
    fn run(mut self, running: Sender<Infallible>) {
        let Worker { channel, outbox, control, .. } = &mut self;
        match catch_unwind(AssertUnwindSafe(|| drive(channel, outbox, control))) {
            Ok(Ok(()) | Err(Halt::Stopped)) => {}
            Ok(Err(Halt::Failed(error))) => self.control.fail(error),
            Err(panic) => self.control.fail(panicked(&self.channel.id.to_string(), panic)),
        }
        self.outbox.queues.close(self.number);
        drop(self);
        drop(running);
    }
}

/// The queues of a channel, and the items that it has to send, by queue.
struct Outbox {
    /// The number of the channel.
    number: usize,
    queues: Arc<Queues>,
    outgoing: Vec<(QueueId, VecDeque<Item>)>,
}

impl Carrier for Outbox {
    fn receive(&mut self, queue: QueueId) -> Result<Item, Halt> {
        Ok(self.queues.receive(queue)?)
    }

    /// Adds an item. A punctuation replaces the one before it.
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

    fn send(&mut self) -> Result<(), Halt> {
        match self.outgoing.iter().all(|(_, items)| items.is_empty()) {
            true => Ok(()),
            false => Ok(self.queues.send(self.number, &mut self.outgoing)?),
        }
    }

    fn is_abandoned(&self) -> bool {
        self.queues.are_closed(self.outgoing.iter().map(|(queue, _)| *queue))
    }
}
