//! The words in which a query speaks about time. The plan and the engine share them: there `E` is a logical
//! expression, here a physical one.

use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// On which side a window is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Closed {
    /// `[T - size, T)`: SQL's and Flink's meaning.
    Left,
    /// `(T - size, T]`: Trill's.
    Right,
}

/// Where a row's lifetime is moved to (trill.txt §5.2.5). Every rule is monotone or the operator refuses its
/// result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum StartRule<E> {
    /// The start stays.
    Keep,
    /// The whole lifetime moves by so many ticks.
    Shift(i64),
    /// The start moves forward to the grid `offset + k·hop`: to the first instant after it (closed left) or
    /// not before it (closed right).
    Snap {
        /// Ticks between two instants of the grid; positive.
        hop: i64,
        /// Where the grid lies.
        offset: i64,
        /// Which side of the window is closed.
        closed: Closed,
    },
    /// The value of an int64 expression over the column `start`.
    By(E),
}

/// How long a row lives after its new start.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum DurationRule<E> {
    /// As long as before.
    Keep,
    /// So many ticks; positive.
    Constant(i64),
    /// For ever: every row becomes a start edge.
    Infinite,
    /// The value of an int64 expression over the column `start`; positive.
    ByStart(E),
    /// The value of an int64 expression over the columns `start` and `end`. A row whose duration is not
    /// positive vanishes.
    ByLifetime(E),
}

impl<E> StartRule<E> {
    /// The same rule over another kind of expression.
    ///
    /// # Errors
    /// What `f` fails with.
    pub fn try_map<F, X>(&self, f: impl FnOnce(&E) -> Result<F, X>) -> Result<StartRule<F>, X> {
        Ok(match self {
            StartRule::Keep => StartRule::Keep,
            StartRule::Shift(n) => StartRule::Shift(*n),
            StartRule::Snap { hop, offset, closed } => {
                StartRule::Snap { hop: *hop, offset: *offset, closed: *closed }
            }
            StartRule::By(e) => StartRule::By(f(e)?),
        })
    }
}

impl<E> DurationRule<E> {
    /// The same rule over another kind of expression.
    ///
    /// # Errors
    /// What `f` fails with.
    pub fn try_map<F, X>(&self, f: impl FnOnce(&E) -> Result<F, X>) -> Result<DurationRule<F>, X> {
        Ok(match self {
            DurationRule::Keep => DurationRule::Keep,
            DurationRule::Constant(n) => DurationRule::Constant(*n),
            DurationRule::Infinite => DurationRule::Infinite,
            DurationRule::ByStart(e) => DurationRule::ByStart(f(e)?),
            DurationRule::ByLifetime(e) => DurationRule::ByLifetime(f(e)?),
        })
    }
}

/// The lifetimes that a stream can have, as its plan says (trill.txt §5.3).
///
/// An operator is chosen among its variants by this property; a wrong one is a bug of the planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub enum Lifetimes {
    /// Intervals of one tick.
    Points,
    /// Intervals of so many ticks.
    Constant(i64),
    /// Intervals of `size` ticks that start on the grid `offset + k·hop`.
    Hop {
        /// Ticks of each lifetime.
        size: i64,
        /// Ticks between two instants of the grid.
        hop: i64,
        /// Where the grid lies.
        offset: i64,
    },
    /// Intervals, of which those that are alive together start and end together: windows one after the other.
    Tiled,
    /// Intervals of any length, no edges.
    Intervals,
    /// Start edges only: what came stays.
    StartEdges,
    /// Anything.
    Any,
}

impl Lifetimes {
    /// Whether rows that are alive together start and end together.
    pub fn are_tiled(self) -> bool {
        match self {
            Lifetimes::Points | Lifetimes::Tiled => true,
            Lifetimes::Hop { size, hop, .. } => size == hop,
            Lifetimes::Constant(_) | Lifetimes::Intervals | Lifetimes::StartEdges | Lifetimes::Any => false,
        }
    }

    /// Whether every row carries its end.
    pub fn edge_free(self) -> bool {
        !matches!(self, Lifetimes::StartEdges | Lifetimes::Any)
    }

    /// Whether rows may end by an end edge.
    pub fn has_end_edges(self) -> bool {
        self == Lifetimes::Any
    }
}

/// What to do with a late row: one from before the stream's frontier, which the reorder latency holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum Disorder {
    /// Fail.
    Raise,
    /// Let it start now; an interval that is over by now is dropped.
    Adjust,
    /// Drop it, count it, and hand it out on the side.
    Drop,
}

/// When ingress adds punctuations of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum Punctuate {
    /// Only those of the source.
    Never,
    /// Whenever time has moved past another multiple of so many ticks.
    Every(i64),
    /// After so many rows.
    Rows(usize),
}

/// What the end of the input means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub enum OnCompleted {
    /// The stream has ended: everything is final.
    EndOfStream,
    /// Time stands where the last row was; what is known up to there comes out.
    Flush,
    /// Nothing: held-back rows stay held back.
    Nothing,
}

/// How rows enter a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Serialize, Deserialize)]
pub struct IngressOptions {
    /// What to do with late rows.
    pub disorder: Disorder,
    /// How long, in ticks, rows are held back to be sorted.
    pub reorder_latency: i64,
    /// When to punctuate.
    pub punctuate: Punctuate,
    /// What the end of the input means.
    pub on_completed: OnCompleted,
    /// The largest batch that ingress makes, in rows.
    pub batch_rows: usize,
    /// After how long without rows a shard of a growing source holds nobody back. That is up to whoever feeds
    /// the ingress, which has no clock.
    pub idle: Option<Duration>,
}

impl Default for IngressOptions {
    /// Raise on disorder, hold nothing back, no punctuations, batches of 80 000 rows, the end of the input
    /// ends the stream.
    fn default() -> Self {
        IngressOptions {
            disorder: Disorder::Raise,
            reorder_latency: 0,
            punctuate: Punctuate::Never,
            on_completed: OnCompleted::EndOfStream,
            batch_rows: BATCH_ROWS,
            idle: None,
        }
    }
}

/// Rows in a full batch: large enough to amortise what is done once a batch (trill.txt §7.1).
pub const BATCH_ROWS: usize = 80_000;

/// A checked instant: used by rules that compute one.
pub(crate) fn shift(time: Time, by: i64) -> Time {
    match time {
        crate::time::INFINITY | crate::time::BEGINNING => time,
        _ => time.saturating_add(by),
    }
}
