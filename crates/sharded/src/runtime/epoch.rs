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

use super::ipc;
use crate::dataset::{ShardLog, SliceReader};
use crate::program::ChannelId;
use crossbeam_channel::{Receiver, Sender};
use datafusion::arrow::record_batch::RecordBatch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use whimbrel_temporal::Time;

/// The end of an epoch in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The number of the epoch, from one on.
    pub epoch: u64,
    /// Whether channels save their states there.
    pub snapshot: bool,
}

/// What the reader of a lane is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceOrder {
    /// To read a slice.
    Slice(#[serde(with = "serde_bytes")] Vec<u8>),
    /// That an epoch has ended.
    Marker(Marker),
}

/// The state of a channel at a marker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChannelState {
    /// Which of its lanes have ended.
    pub ended: Vec<bool>,
    /// The checkpoint of its program.
    #[serde(with = "serde_bytes")]
    pub program: Vec<u8>,
    /// The states of its exchanges, route by route.
    pub routes: Vec<Vec<u8>>,
}

/// The states that the channels of a query go on from; a channel without one had ended. None at the
/// beginning.
pub type States = Option<BTreeMap<ChannelId, ChannelState>>;

/// What a query in epochs reports to its coordinator.
///
/// The reports of one channel come in the order in which things happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Report {
    /// Rows of a shard of the result.
    Rows(usize, #[serde(with = "ipc")] RecordBatch),
    /// A source has been read up to the marker of an epoch, and the latest time of its rows so far, if that
    /// is needed.
    Read(usize, Option<Time>),
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
    /// Takes what its reader is told.
    orders: OrderSink,
}

/// Takes the orders for the reader of a source, wherever that is. A reader that has ended takes no more.
pub type OrderSink = Box<dyn Fn(SourceOrder) + Send>;

impl PacedSource {
    /// The source of this lane.
    pub(crate) fn new((channel, lane): PacedPlace, log: Box<dyn ShardLog>, orders: OrderSink) -> PacedSource {
        PacedSource { channel, lane, log, orders }
    }

    /// Lets the query read a slice.
    pub fn read(&self, slice: Vec<u8>) {
        (self.orders)(SourceOrder::Slice(slice));
    }

    /// Ends an epoch.
    pub fn mark(&self, marker: Marker) {
        (self.orders)(SourceOrder::Marker(marker));
    }
}

/// A lane that is read as a coordinator orders: the channel, and the number of the lane.
pub(crate) type PacedPlace = (ChannelId, usize);

/// The reading end of a [`PacedSource`].
pub(super) struct PacedLane {
    /// The number of the source.
    pub source: usize,
    pub orders: Receiver<SourceOrder>,
    pub reader: Box<dyn SliceReader>,
    /// Whether a slice is being read.
    pub is_reading: bool,
    pub reports: Sender<Report>,
}

impl PacedLane {
    /// The reader of the source of this number.
    pub fn new(
        source: usize,
        orders: Receiver<SourceOrder>,
        reader: Box<dyn SliceReader>,
        reports: Sender<Report>,
    ) -> PacedLane {
        PacedLane { source, orders, reader, is_reading: false, reports }
    }
}
