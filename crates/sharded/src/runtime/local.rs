//! The local runtime: a thread a channel, bounded queues between them (quill.txt §4.2).
//!
//! Why it does not deadlock. A consumer takes from the lane that its program needs and from those that are as far behind
//! in time as that one. A producer hands everything that it
//! has for targets that have room, punctuations with its progress last, before it waits for one that has none. So of
//! all channels that wait, the one that is furthest behind in time is needed by nobody who keeps it waiting. Two paths
//! between the same stages could break this, as one of them may need to run far ahead of the other; the queues of a
//! stage that feeds several edges have no bound.
//!
//! A channel that fails stops all others before its queues close, so nobody takes its silence for an end.

use super::wiring::{Channel, Lane, QueueId};
use super::{Control, Execution, Progress, Runtime, Wiring};
use crate::program::Step;
use crossbeam_channel::{Receiver, RecvTimeoutError, Select, Sender, TrySendError, bounded, select_biased, unbounded};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use whimbrel_temporal::Message;

/// Runs a query on a thread a channel.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// How many messages may wait in a bounded queue.
    pub queue_capacity: usize,
}

/// What is in a queue.
enum Item {
    Message(Message),
    /// Nothing more comes. A queue that is closed without it was closed by a failure.
    End,
}

impl Runtime for Local {
    fn start(&self, wiring: Wiring, progress: Progress) -> Result<Box<dyn Execution>> {
        let control = progress.control().clone();
        let queues = wiring.queues.iter().map(|queue| match queue.bounded {
            true => bounded(self.queue_capacity),
            false => unbounded(),
        });
        let (senders, receivers): (Vec<_>, Vec<_>) = queues.unzip();
        let mut ports = Ports {
            senders: senders.into_iter().map(Some).collect(),
            receivers: receivers.into_iter().map(Some).collect(),
        };
        let workers = wiring.channels.into_iter().map(|c| Worker::new(c, &mut ports, control.clone()));
        let workers = workers.collect::<Result<Vec<_>>>()?;
        let (running, ended) = bounded(0);
        let mut threads = Vec::new();
        for worker in workers {
            let thread = std::thread::Builder::new().name(worker.channel.name.clone());
            let running = running.clone();
            match thread.spawn(move || worker.run(running)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let error = format!("no thread for {}: {error}", threads.len());
                    control.fail(DataFusionError::ResourcesExhausted(error));
                    break;
                }
            }
        }
        Ok(Box::new(Threads { threads, ended, control }))
    }
}

/// The threads of a job.
struct Threads {
    threads: Vec<JoinHandle<()>>,
    /// Disconnected once all of them are done.
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
        for thread in self.threads.drain(..) {
            // A panic was caught where it happened and is the job's error.
            let _ = thread.join();
        }
        match self.control.take_error() {
            Some(error) => Err(error),
            None => Ok(true),
        }
    }
}

/// The ends of all queues; each is taken by the one channel it belongs to.
struct Ports {
    senders: Vec<Option<Sender<Item>>>,
    receivers: Vec<Option<Receiver<Item>>>,
}

impl Ports {
    fn sender(&mut self, queue: QueueId) -> Result<Sender<Item>> {
        self.senders[queue].take().ok_or_else(|| internal_datafusion_err!("a queue has two producers"))
    }

    fn receiver(&mut self, queue: QueueId) -> Result<Receiver<Item>> {
        self.receivers[queue].take().ok_or_else(|| internal_datafusion_err!("a queue has two consumers"))
    }
}

/// Where a lane's messages come from, as a thread sees it.
enum Source {
    Own(Lane),
    Queue(Receiver<Item>),
}

/// One channel's thread.
struct Worker {
    channel: Channel,
    sources: Vec<Source>,
    outbox: Outbox,
    control: Arc<Control>,
}

/// The job is to stop, or the channel has failed.
enum Halt {
    Stopped,
    Failed(DataFusionError),
}

impl From<DataFusionError> for Halt {
    fn from(error: DataFusionError) -> Halt {
        Halt::Failed(error)
    }
}

impl Worker {
    fn new(mut channel: Channel, ports: &mut Ports, control: Arc<Control>) -> Result<Worker> {
        let lanes = std::mem::take(&mut channel.lanes).into_iter();
        let sources = lanes.map(|lane| match lane {
            Lane::Queue(queue) => Ok(Source::Queue(ports.receiver(queue)?)),
            lane => Ok(Source::Own(lane)),
        });
        let sources = sources.collect::<Result<_>>()?;
        let mut outbox = Outbox { queues: Vec::new() };
        for queue in channel.outlets.iter().flat_map(|o| &o.routes).flat_map(|r| r.targets()) {
            let sender = ports.sender(*queue)?;
            outbox.queues.push(Waiting { queue: *queue, sender, items: VecDeque::new(), gone: false });
        }
        Ok(Worker { channel, sources, outbox, control })
    }

    /// Runs to the end; `running` tells by its drop that it is over.
    fn run(mut self, running: Sender<Infallible>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.drive()));
        match outcome {
            Ok(Ok(()) | Err(Halt::Stopped)) => {}
            Ok(Err(Halt::Failed(error))) => self.control.fail(error),
            Err(panic) => {
                let what = panic.downcast_ref::<&str>().map(|s| s.to_string());
                let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                let error = format!("{} panicked: {what}", self.channel.name);
                self.control.fail(DataFusionError::Internal(error));
            }
        }
        // The queues close only now.
        drop(self);
        drop(running);
    }

    fn drive(&mut self) -> Result<(), Halt> {
        let mut out = Vec::new();
        loop {
            if self.control.is_stopped() {
                return Err(Halt::Stopped);
            }
            let step = self.channel.step(&mut out, &self.control)?;
            let Worker { channel, outbox, control, .. } = self;
            channel.deliver(&mut out, control, |queue, message| outbox.put(queue, Item::Message(message)))?;
            self.outbox.flush(self.control.stopped())?;
            if self.outbox.nobody_listens() && !self.channel.has_sink() {
                return Ok(());
            }
            match step {
                Step::Ready => {}
                Step::Ended => return self.finish(),
                Step::Needs(needed) => match self.fetch(needed)? {
                    (lane, Some(message)) => self.channel.program.push(lane, message)?,
                    (lane, None) => self.channel.program.end(lane)?,
                },
            }
        }
    }

    /// The next message of the lane that is needed, or of one as far behind; none at its end.
    fn fetch(&mut self, needed: usize) -> Result<(usize, Option<Message>), Halt> {
        let stopped = self.control.stopped();
        match &mut self.sources[needed] {
            Source::Own(lane @ Lane::Reader(_)) => Ok((needed, lane.read(&self.control)?)),
            Source::Own(Lane::Live { queue, columns }) => {
                let message = select_biased! {
                    recv(stopped) -> _ => return Err(Halt::Stopped),
                    // A sender that is gone has closed its shard.
                    recv(queue) -> message => message.ok(),
                };
                Ok((needed, super::wiring::live(message, columns.as_deref(), &self.control)?))
            }
            Source::Queue(_) => self.receive(needed),
            Source::Own(Lane::Queue(_)) => Err(internal_datafusion_err!("a queue without its receiver").into()),
        }
    }

    /// Waits for the queue of the lane that is needed, and for those of the lanes as far behind.
    fn receive(&self, needed: usize) -> Result<(usize, Option<Message>), Halt> {
        let mut lanes = Vec::new();
        let mut select = Select::new();
        let stop = select.recv(self.control.stopped());
        for lane in self.channel.program.level(needed) {
            if let Source::Queue(queue) = &self.sources[lane] {
                lanes.push((lane, queue));
                select.recv(queue);
            }
        }
        let ready = select.select();
        if ready.index() == stop {
            // Nothing is ever sent here: it is closed.
            let _ = ready.recv(self.control.stopped());
            return Err(Halt::Stopped);
        }
        let (lane, queue) = lanes[ready.index() - 1];
        match ready.recv(queue) {
            Ok(Item::Message(message)) => Ok((lane, Some(message))),
            Ok(Item::End) => Ok((lane, None)),
            // Whoever fails stops the job before it closes its queues.
            Err(_) if self.control.is_stopped() => Err(Halt::Stopped),
            Err(_) => Err(internal_datafusion_err!("a queue was closed before its end").into()),
        }
    }

    fn finish(&mut self) -> Result<(), Halt> {
        self.outbox.queues.iter_mut().for_each(|waiting| waiting.items.push_back(Item::End));
        self.outbox.flush(self.control.stopped())
    }
}

/// What a channel has to send.
struct Outbox {
    queues: Vec<Waiting>,
}

struct Waiting {
    queue: QueueId,
    sender: Sender<Item>,
    items: VecDeque<Item>,
    /// Its consumer has ended, having got all it needs.
    gone: bool,
}

impl Outbox {
    fn put(&mut self, queue: QueueId, item: Item) {
        // A channel has few targets.
        let Some(waiting) = self.queues.iter_mut().find(|w| w.queue == queue) else { return };
        if let (Some(Item::Message(Message::Punctuation(last))), Item::Message(Message::Punctuation(time))) =
            (waiting.items.back_mut(), &item)
        {
            *last = (*last).max(*time);
            return;
        }
        waiting.items.push_back(item);
    }

    /// Whether all consumers have got all they need.
    fn nobody_listens(&self) -> bool {
        self.queues.iter().all(|waiting| waiting.gone)
    }

    /// Sends everything; what has room first, then waits for the rest.
    fn flush(&mut self, stopped: &Receiver<Infallible>) -> Result<(), Halt> {
        loop {
            self.queues.iter_mut().for_each(Waiting::send);
            let full: Vec<usize> = (0..self.queues.len()).filter(|i| !self.queues[*i].items.is_empty()).collect();
            if full.is_empty() {
                return Ok(());
            }
            let mut select = Select::new();
            let stop = select.recv(stopped);
            for i in &full {
                select.send(&self.queues[*i].sender);
            }
            // Which one has room is seen when sending is tried again.
            if select.ready() == stop {
                return Err(Halt::Stopped);
            }
        }
    }
}

impl Waiting {
    fn send(&mut self) {
        while let Some(item) = self.items.pop_front() {
            if self.gone {
                continue;
            }
            match self.sender.try_send(item) {
                Ok(()) => {}
                Err(TrySendError::Full(item)) => {
                    self.items.push_front(item);
                    return;
                }
                Err(TrySendError::Disconnected(_)) => self.gone = true,
            }
        }
    }
}
