//! The carrier of a channel of a cluster: what it receives is pulled from other channels, and what it sends
//! goes into the backup of its worker.

use crate::backup::QueueBackup;
use crate::frame::{Frame, is_same};
use datafusion::common::Result;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;
use whimbrel_sharded::runtime::{Carrier, Halt, Item, QueueId};
use whimbrel_temporal::Message;

/// A queue that is filled here, and the number of its next frame.
pub struct Outgoing {
    queue: Arc<QueueBackup>,
    next: u64,
    /// Whether its consumer runs on this worker. One that moves away later is served all the same.
    is_local: bool,
}

impl Outgoing {
    /// A queue that has just begun.
    pub fn new(queue: Arc<QueueBackup>, is_local: bool) -> Outgoing {
        Outgoing { queue, next: 0, is_local }
    }

    /// Appends an item.
    ///
    /// # Errors
    /// `ResourcesExhausted` if the disk is full.
    pub fn append(&mut self, item: Item) -> Result<()> {
        let frame = Frame::of(self.next, item)?;
        self.append_frame(if self.is_local { frame } else { frame.encoded()? })
    }

    /// Appends a frame, under the next number.
    fn append_frame(&mut self, frame: Frame) -> Result<()> {
        self.queue.append(frame.numbered(self.next))?;
        self.next += 1;
        Ok(())
    }
}

/// Carries the items of a channel.
pub struct NetworkCarrier {
    /// The frames of each queue that the channel reads.
    pub incoming: BTreeMap<QueueId, mpsc::Receiver<Frame>>,
    /// The queues that it fills.
    pub outgoing: BTreeMap<QueueId, Outgoing>,
    /// What will be sent next.
    pub waiting: Vec<(QueueId, Item)>,
    /// Whether all consumers have ended.
    pub is_abandoned: Arc<AtomicBool>,
}

impl Carrier for NetworkCarrier {
    fn receive(&mut self, queue: QueueId) -> Result<Item, Halt> {
        let frames = self.incoming.get_mut(&queue);
        // It ends early only if the job does, or the channel was given to another worker.
        let frame = frames.and_then(mpsc::Receiver::blocking_recv).ok_or(Halt::Stopped)?;
        Ok(frame.item()?)
    }

    fn put(&mut self, queue: QueueId, item: Item) {
        self.waiting.push((queue, item));
    }

    fn send(&mut self) -> Result<(), Halt> {
        // A message to several consumers is encoded once.
        let mut last: Option<(Message, Frame)> = None;
        for (queue, item) in self.waiting.drain(..) {
            let Some(outgoing) = self.outgoing.get_mut(&queue) else { continue };
            match item {
                Item::Message(message) if !outgoing.is_local => {
                    let frame = match last.take().filter(|(before, _)| is_same(before, &message)) {
                        Some((_, frame)) => frame,
                        None => Frame::of(0, Item::Message(message.clone()))?.encoded()?,
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
