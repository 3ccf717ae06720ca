//! The carrier of a channel of a cluster: what it receives is pulled from other channels, and what it sends
//! goes into the backup of its worker.

use crate::backup::QueueBackup;
use crate::lineage::{ChannelLineage, Choices, Turn};
use crate::statistics::{Counters, add};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use datafusion::common::{Result, internal_datafusion_err};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use whimbrel_sharded::runtime::{Carrier, Halt, Item, QueueId};
use whimbrel_sharded::runtime::{Frame, is_same};
use whimbrel_temporal::Message;

/// How long a channel waits for the queue whose turn it is while others have something. A choice costs a
/// record in the store, so it is made where a queue is slow, not where it is a little later than others.
const PATIENCE: Duration = Duration::from_millis(5);

/// A queue that is filled here, and the number of its next frame.
pub struct Outgoing {
    queue: Arc<QueueBackup>,
    lineage: Arc<ChannelLineage>,
    next: u64,
    /// Whether its consumer runs on this worker. One that moves away later is served all the same.
    is_local: bool,
}

impl Outgoing {
    /// A queue that has just begun.
    pub fn new(queue: Arc<QueueBackup>, lineage: &Arc<ChannelLineage>, is_local: bool) -> Outgoing {
        Outgoing { queue, lineage: Arc::clone(lineage), next: 0, is_local }
    }

    /// Appends an item.
    ///
    /// # Errors
    /// `ResourcesExhausted` if the disk is full.
    pub fn append(&mut self, item: Item) -> Result<()> {
        let frame = Frame::of(self.next, item);
        self.append_frame(if self.is_local { frame.compact()? } else { frame.encoded()? })
    }

    /// Appends a frame, under the next number.
    fn append_frame(&mut self, frame: Frame) -> Result<()> {
        let frames = self.queue.append(frame.numbered(self.next))?;
        self.next += 1;
        self.lineage.announce(&self.queue, frames);
        Ok(())
    }
}

/// The queues that a channel reads.
pub struct Incoming {
    /// The frames of each queue.
    pub frames: BTreeMap<QueueId, mpsc::Receiver<Frame>>,
    /// Told when a queue has a frame, if the channel chooses.
    pub arrivals: Receiver<()>,
    /// What was chosen before, and what may be chosen.
    pub choices: Choices,
}

impl Incoming {
    /// The first of several queues that has something; waits for it, and a little for the first of them.
    fn wait_for_any(&self, queues: &[QueueId]) -> Result<usize, Halt> {
        let patient = Instant::now() + PATIENCE;
        loop {
            let has_frames =
                |queue: &QueueId| self.frames.get(queue).is_some_and(|frames| !frames.is_empty());
            let ready = queues.iter().position(has_frames);
            match ready {
                Some(0) => return Ok(0),
                Some(place) if Instant::now() >= patient => return Ok(place),
                _ => {}
            }
            let arrived = match ready {
                Some(_) => self.arrivals.recv_deadline(patient),
                None => self.arrivals.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            // Whoever fills the queues has ended: what is there is all, or the job is over.
            if arrived == Err(RecvTimeoutError::Disconnected) {
                return queues.iter().position(has_frames).ok_or(Halt::Stopped);
            }
        }
    }
}

/// Carries the items of a channel.
pub struct NetworkCarrier {
    /// The queues that the channel reads.
    pub incoming: Incoming,
    /// The queues that it fills.
    pub outgoing: BTreeMap<QueueId, Outgoing>,
    /// What will be sent next.
    pub waiting: Vec<(QueueId, Item)>,
    /// Whether all consumers have ended.
    pub is_abandoned: Arc<AtomicBool>,
    /// What it counts.
    pub counters: Arc<Counters>,
}

impl Carrier for NetworkCarrier {
    fn receive(&mut self, queue: QueueId) -> Result<Item, Halt> {
        let frames = self.incoming.frames.get_mut(&queue);
        // It ends early only if the job does, or the channel was given to another worker.
        let frame = frames.and_then(mpsc::Receiver::blocking_recv).ok_or(Halt::Stopped)?;
        let item = frame.item()?;
        if let Item::Message(Message::Batch(batch)) = &item {
            add(&self.counters.rows, batch.len());
        }
        Ok(item)
    }

    fn chooses(&self) -> bool {
        self.incoming.choices.are_needed()
    }

    fn choose(&mut self, queues: &[QueueId]) -> Result<usize, Halt> {
        match self.incoming.choices.next() {
            Turn::Next => Ok(0),
            Turn::Queue(queue) => {
                let place = queues.iter().position(|candidate| *candidate == queue);
                Ok(place
                    .ok_or_else(|| internal_datafusion_err!("queue {queue} is no candidate of a replay"))?)
            }
            Turn::Any => {
                let chosen = self.incoming.wait_for_any(queues)?;
                if chosen != 0 {
                    self.incoming.choices.log(queues[chosen]);
                }
                Ok(chosen)
            }
        }
    }

    fn put(&mut self, queue: QueueId, item: Item) {
        self.waiting.push((queue, item));
    }

    fn send(&mut self) -> Result<(), Halt> {
        add(&self.counters.tasks, usize::from(!self.waiting.is_empty()));
        // A message to several consumers is encoded once.
        let mut last: Option<(Message, Frame)> = None;
        for (queue, item) in self.waiting.drain(..) {
            let Some(outgoing) = self.outgoing.get_mut(&queue) else { continue };
            match item {
                Item::Message(message) if !outgoing.is_local => {
                    let frame = match last.take().filter(|(before, _)| is_same(before, &message)) {
                        Some((_, frame)) => frame,
                        None => Frame::of(0, Item::Message(message.clone())).encoded()?,
                    };
                    outgoing.append_frame(frame.clone())?;
                    last = Some((message, frame));
                }
                item => outgoing.append(item)?,
            }
        }
        Ok(())
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }
}
