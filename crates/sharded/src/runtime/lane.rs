//! Lanes: where the messages of a channel come from.

use super::Control;
use super::epoch::{Marker, PacedLane, Report, SourceOrder};
use super::topology::QueueId;
use crate::dataset::{Cut, LiveQueue, Part, Reader, ReplayableShard};
use crate::relation::always;
use crossbeam_channel::{Receiver, Select, TryRecvError, tick};
use datafusion::common::Result;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use whimbrel_temporal::{INFINITY, Message};

/// How often a shard that grows is asked for news.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// An entry of a lane.
#[derive(Debug)]
pub enum Item {
    /// Rows, or a promise about time.
    Message(Message),
    /// An epoch ends here.
    Marker(Marker),
    /// No message follows.
    End,
}

/// The source of a lane's messages.
pub(super) enum Lane {
    /// A shard that is read.
    Reader(Box<dyn Reader>),
    /// A shard of a live source, and which of its columns are used.
    Live { queue: LiveQueue, columns: Option<Vec<usize>> },
    /// A shard that is read as it grows.
    Growing(Box<GrowingLane>),
    /// A shard that is read in slices, as a coordinator orders.
    Paced(Box<PacedLane>),
    /// A queue from another channel.
    Queue(QueueId),
}

/// What a lane has.
pub(super) enum Poll {
    Item(Item),
    /// What this queue has.
    Queue(QueueId),
    /// Nothing yet.
    Nothing,
}

impl Lane {
    /// The queue that it is, if it is one.
    pub fn queue(&self) -> Option<QueueId> {
        match self {
            Lane::Queue(queue) => Some(*queue),
            _ => None,
        }
    }

    /// The next item of the lane. A lane that is no queue is read here.
    ///
    /// # Errors
    /// Those of its reader.
    pub fn poll(&mut self, control: &Control) -> Result<Poll> {
        match self {
            Lane::Queue(queue) => Ok(Poll::Queue(*queue)),
            Lane::Reader(reader) => {
                let rows = reader.next()?;
                rows.iter().for_each(|rows| count(control, rows.num_rows()));
                Ok(Poll::Item(rows.map_or(Item::End, |rows| Item::Message(always(rows)))))
            }
            Lane::Live { queue, columns } => match queue.messages.try_recv() {
                Ok(message) => Ok(Poll::Item(live_item(message, columns.as_deref(), control)?)),
                Err(TryRecvError::Empty) => Ok(Poll::Nothing),
                // A sender that was dropped has closed its shard.
                Err(TryRecvError::Disconnected) => {
                    queue.check_end()?;
                    Ok(Poll::Item(Item::End))
                }
            },
            Lane::Growing(lane) => lane.poll(control),
            Lane::Paced(lane) => lane.poll(control),
        }
    }

    /// Makes a wait end when the lane may have something; how many registrations that takes.
    pub fn register<'a>(&'a self, select: &mut Select<'a>) -> usize {
        match self {
            Lane::Live { queue, .. } => select.recv(&queue.messages),
            Lane::Growing(lane) => select.recv(&lane.ticks),
            Lane::Paced(lane) => select.recv(&lane.orders),
            Lane::Reader(_) | Lane::Queue(_) => return 0,
        };
        1
    }
}

/// A shard that grows, and what is being read of it.
pub(super) struct GrowingLane {
    shard: ReplayableShard,
    is_reading: bool,
    /// When the shard is asked for news again.
    ticks: Receiver<Instant>,
}

impl GrowingLane {
    /// A lane that begins at the beginning of the shard.
    pub fn new(shard: ReplayableShard) -> GrowingLane {
        GrowingLane { shard, is_reading: false, ticks: tick(POLL_INTERVAL) }
    }

    fn poll(&mut self, control: &Control) -> Result<Poll> {
        loop {
            if self.is_reading {
                let part = self.shard.reader.next()?;
                self.shard.reader.latest().into_iter().for_each(|time| self.shard.log.note_time(time));
                match part {
                    Some(part) => return Ok(Poll::Item(item(part, control))),
                    None => self.is_reading = false,
                }
            }
            match self.shard.log.cut()? {
                Cut::Slice(slice) => self.shard.reader.begin(&slice)?,
                Cut::End => return Ok(Poll::Item(Item::End)),
                Cut::Nothing => {
                    let _ = self.ticks.try_recv();
                    return Ok(Poll::Nothing);
                }
            }
            self.is_reading = true;
        }
    }
}

/// A part of a slice as its channel takes it.
fn item(part: Part, control: &Control) -> Item {
    match part {
        Part::End => Item::End,
        Part::Message(message) => {
            if let Message::Batch(batch) = &message {
                count(control, batch.len());
            }
            Item::Message(message)
        }
    }
}

impl PacedLane {
    fn poll(&mut self, control: &Control) -> Result<Poll> {
        loop {
            if self.is_reading {
                match self.reader.next()? {
                    Some(part) => {
                        if matches!(part, Part::End) {
                            self.report(Report::Drained(self.source));
                        }
                        return Ok(Poll::Item(item(part, control)));
                    }
                    None => self.is_reading = false,
                }
            }
            match self.orders.try_recv() {
                Ok(SourceOrder::Slice(slice)) => {
                    self.reader.begin(&slice)?;
                    self.is_reading = true;
                }
                Ok(SourceOrder::Marker(marker)) => {
                    self.report(Report::Read(self.source, self.reader.latest()));
                    return Ok(Poll::Item(Item::Marker(marker)));
                }
                Err(TryRecvError::Empty) => return Ok(Poll::Nothing),
                // The coordinator is gone, and the job with it.
                Err(TryRecvError::Disconnected) => return Ok(Poll::Nothing),
            }
        }
    }

    /// Tells the coordinator how far the source has been read. One that is gone needs no reports.
    fn report(&self, report: Report) {
        let _ = self.reports.send(report);
    }
}

/// Counts rows of a source.
fn count(control: &Control, rows: usize) {
    control.rows_read.fetch_add(rows as u64, Ordering::Relaxed);
}

/// A message of a live source as its channel takes it.
///
/// # Errors
/// If the rows have too few columns.
fn live_item(message: Message, columns: Option<&[usize]>, control: &Control) -> Result<Item> {
    Ok(match message {
        Message::Punctuation(INFINITY) => Item::End,
        Message::Punctuation(_) => Item::Message(message),
        Message::Batch(batch) => {
            count(control, batch.len());
            Item::Message(match columns {
                Some(columns) => always(batch.rows.project(columns)?),
                None => Message::Batch(batch),
            })
        }
    })
}
