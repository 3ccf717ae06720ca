//! Epochs: the input of a query is cut into numbered parts, and every channel learns where each one ends.
//!
//! A query in epochs is told by its coordinator what to read: slices of its sources, and a *marker*
//! behind the last slice of each epoch. A marker goes through the channels as barriers do in Flink (P.
//! Carbone et al., Lightweight Asynchronous Snapshots for Distributed Dataflows, 2015): a channel reads
//! every lane up to its marker before it reads on in any, hands the marker on, and saves its state there
//! if the marker asks for it.
//!
//! Invariants: what a channel has handed out before a marker depends on the slices before the marker
//! alone, and not on the order in which its lanes were served. Nothing is on its way between two channels
//! at a marker, so the states that were saved there, and the positions of the sources, are all of the
//! query.

use crate::dataset::{ReplayableShard, ShardLog, SliceReader};
use crate::program::ChannelId;
use crossbeam_channel::{Receiver, Sender, unbounded};
use datafusion::arrow::record_batch::RecordBatch;
use serde::{Deserialize, Serialize};

/// The end of an epoch in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// The number of the epoch, from one on.
    pub epoch: u64,
    /// Whether channels save their states there.
    pub snapshot: bool,
}

/// What the reader of a lane is told.
#[derive(Debug)]
pub(super) enum Order {
    /// To read a slice.
    Slice(Vec<u8>),
    /// That an epoch has ended.
    Marker(Marker),
}

/// The state of a channel at a marker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChannelState {
    /// Which of its lanes have ended.
    pub ended: Vec<bool>,
    /// The checkpoint of its program.
    pub program: Vec<u8>,
}

/// What a query in epochs reports to its coordinator.
///
/// The reports of one channel come in the order in which things happened.
#[derive(Debug)]
pub enum Report {
    /// Rows of a shard of the result.
    Rows(usize, RecordBatch),
    /// A source has been read up to the marker of an epoch.
    Read(usize),
    /// A source has been read to its end.
    Drained(usize),
    /// A channel has handed out all of an epoch.
    Passed(ChannelId, Marker),
    /// The state of a channel at a marker.
    Saved(ChannelId, u64, ChannelState),
    /// A channel has handed out all that it ever will.
    Ended(ChannelId),
}

/// A source of a query in epochs, as its coordinator sees it.
pub struct PacedSource {
    /// The channel that reads it.
    pub channel: ChannelId,
    /// The number of the lane.
    pub lane: usize,
    /// Cuts it into slices.
    pub log: Box<dyn ShardLog>,
    orders: Sender<Order>,
}

impl PacedSource {
    /// Lets the query read a slice.
    pub fn read(&self, slice: Vec<u8>) {
        // A lane that has ended takes no more orders.
        let _ = self.orders.send(Order::Slice(slice));
    }

    /// Ends an epoch.
    pub fn mark(&self, marker: Marker) {
        let _ = self.orders.send(Order::Marker(marker));
    }
}

/// The reading end of a [`PacedSource`].
pub(super) struct PacedLane {
    /// The number of the source.
    pub source: usize,
    pub orders: Receiver<Order>,
    pub reader: Box<dyn SliceReader>,
    /// Whether a slice is being read.
    pub is_reading: bool,
    pub reports: Sender<Report>,
}

impl PacedLane {
    /// The two ends of a source of this number, which a lane of a channel reads.
    pub fn new(
        source: usize,
        (channel, lane): (ChannelId, usize),
        shard: ReplayableShard,
        reports: Sender<Report>,
    ) -> (PacedSource, PacedLane) {
        let (sender, orders) = unbounded();
        let reader = PacedLane { source, orders, reader: shard.reader, is_reading: false, reports };
        (PacedSource { channel, lane, log: shard.log, orders: sender }, reader)
    }
}
