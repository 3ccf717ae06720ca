//! How snapshots are emitted: as edges, when they begin; or as intervals in the order of their starts, when
//! they are over.
//!
//! Edges are for operators that compute on: they have a snapshot as soon as it begins. Whoever only reads the
//! result of a query that ends wants intervals; to make them here costs one row a snapshot instead of two,
//! and nobody has to find the start that an end belongs to.
//!
//! Invariants of intervals: rows are numbered in the order of their starts; all rows of `sealed` come before
//! those of `output`; the first sealed chunk has a row without an end, or it would have left.

use super::calls::Plan;
use super::output_batch::{OutputBatch, Snapshots};
use crate::batch::{Batch, Message, Other};
use crate::checkpoint::SavedBatch;
use crate::operator::{decode, encode};
use crate::time::{INFINITY, Time};
use arrow::array::RecordBatch;
use arrow::buffer::ScalarBuffer;
use datafusion::common::Result;
use std::collections::VecDeque;

/// When a snapshot is emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emission {
    /// When it begins: as an edge, where its end is not known by then.
    OnStart,
    /// When it is over: as an interval, in the order of the starts. At the end of the stream what is not over
    /// leaves as it is.
    OnClose,
}

/// A snapshot that has begun; what the number means, only [`Emitter`] knows.
pub(super) type SnapshotId = i64;

/// There is none. (A start is never at the end of time, nor are there so many rows.)
pub(super) const NO_SNAPSHOT: SnapshotId = INFINITY;

/// The ids of some snapshots, in their order.
#[derive(Debug, Clone, Copy)]
pub(super) struct SnapshotIds {
    first: SnapshotId,
    step: SnapshotId,
}

impl SnapshotIds {
    #[inline(always)]
    pub fn nth(self, snapshot: usize) -> SnapshotId {
        self.first + self.step * snapshot as SnapshotId
    }
}

/// See the module.
#[derive(Debug)]
pub(super) enum Emitter {
    /// An id is the start of the snapshot.
    Edges(OutputBatch),
    /// An id is the number of the row.
    Intervals(Intervals),
}

/// Rows that wait for their ends, or for an earlier row's.
#[derive(Debug)]
pub(super) struct Intervals {
    output: OutputBatch,
    sealed: VecDeque<Chunk>,
    /// The number of the first row in `output`.
    next: SnapshotId,
    /// How many rows in `output` have no end.
    open: usize,
}

/// Rows whose columns are complete, but for the ends.
#[derive(Debug)]
struct Chunk {
    first: SnapshotId,
    open: usize,
    sync: ScalarBuffer<i64>,
    ends: Vec<Time>,
    rows: RecordBatch,
}

impl Emitter {
    pub fn new(emission: Emission, plan: &Plan) -> Emitter {
        let output = OutputBatch::new(plan, None);
        match emission {
            Emission::OnStart => Emitter::Edges(output),
            Emission::OnClose => {
                Emitter::Intervals(Intervals { output, sealed: VecDeque::new(), next: 0, open: 0 })
            }
        }
    }

    /// The ids of the snapshots that begin next, at `now`.
    pub fn next_ids(&mut self, now: Time) -> SnapshotIds {
        match self {
            Emitter::Edges(_) => SnapshotIds { first: now, step: 0 },
            Emitter::Intervals(intervals) => {
                SnapshotIds { first: intervals.next + intervals.output.others().len() as SnapshotId, step: 1 }
            }
        }
    }

    /// These snapshots begin.
    pub fn begin(&mut self, now: Time, of: Snapshots) {
        let begun = of.groups.len();
        if begun == 0 {
            return;
        }
        let others = match self {
            Emitter::Edges(output) => output.rows(now, of),
            Emitter::Intervals(intervals) => {
                intervals.open += begun;
                intervals.output.rows(now, of)
            }
        };
        others.resize(others.len() + begun, INFINITY);
    }

    /// The snapshots with these ids end; they are still as they were when they began.
    pub fn end(&mut self, now: Time, of: Snapshots, ids: &[SnapshotId]) {
        if ids.is_empty() {
            return;
        }
        match self {
            Emitter::Edges(output) => output.rows(now, of).extend(ids),
            Emitter::Intervals(intervals) => intervals.end(ids, now),
        }
    }

    /// Hands out the finished rows, if there are many.
    pub fn flush_full(&mut self, out: &mut Vec<Message>) -> Result<()> {
        match self {
            Emitter::Edges(output) => output.flush_full(out),
            Emitter::Intervals(intervals) if intervals.output.is_full() => intervals.flush(out),
            Emitter::Intervals(_) => Ok(()),
        }
    }

    /// Hands out the finished rows.
    pub fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        match self {
            Emitter::Edges(output) => output.flush(out),
            Emitter::Intervals(intervals) => intervals.flush(out),
        }
    }

    /// Hands on a punctuation, after the rows that belong before it; at the end of time these are all.
    pub fn punctuation(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        self.flush(out)?;
        let time = match self {
            Emitter::Edges(_) => time,
            Emitter::Intervals(intervals) => intervals.horizon(time, out),
        };
        out.push(Message::Punctuation(time));
        Ok(())
    }

    pub fn save(&self) -> Result<Vec<u8>> {
        let Emitter::Intervals(intervals) = self else { return Ok(Vec::new()) };
        let chunk = |c: &Chunk| Ok((c.first, c.open, SavedBatch::of(&c.batch(c.ends.clone()))?));
        let sealed =
            intervals.sealed.iter().map(chunk).collect::<Result<Vec<(SnapshotId, usize, SavedBatch)>>>()?;
        encode(&(intervals.next, sealed))
    }

    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let Emitter::Intervals(intervals) = self else { return Ok(()) };
        let sealed: Vec<(SnapshotId, usize, SavedBatch)>;
        (intervals.next, sealed) = decode(bytes)?;
        for (first, open, saved) in sealed {
            let batch = saved.batch()?;
            let ends = batch.other_column().to_vec();
            intervals.sealed.push_back(Chunk { first, open, sync: batch.sync, ends, rows: batch.rows });
        }
        Ok(())
    }
}

impl Intervals {
    /// Notes the ends of rows. The chunk of a row is found by bisection, unless it is the one found last.
    fn end(&mut self, ids: &[SnapshotId], now: Time) {
        // What ends together has often begun together.
        let mut near = 0;
        for &row in ids {
            if row >= self.next {
                self.output.others()[(row - self.next) as usize] = now;
                self.open -= 1;
                continue;
            }
            if !self.sealed.get(near).is_some_and(|chunk| chunk.has(row)) {
                near = self.sealed.partition_point(|chunk| chunk.first <= row) - 1;
            }
            let chunk = &mut self.sealed[near];
            chunk.ends[(row - chunk.first) as usize] = now;
            chunk.open -= 1;
        }
    }

    /// Seals the rows of `output`, and lets go of the chunks whose rows all have ends.
    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        if let Some((sync, ends, rows)) = self.output.take()? {
            let (first, open) = (self.next, std::mem::take(&mut self.open));
            self.next += ends.len() as SnapshotId;
            self.sealed.push_back(Chunk { first, open, sync, ends, rows });
        }
        while let Some(chunk) = self.sealed.pop_front_if(|chunk| chunk.open == 0) {
            out.push(Message::Batch(chunk.whole()));
        }
        Ok(())
    }

    /// The time before which nothing will leave any more.
    fn horizon(&mut self, time: Time, out: &mut Vec<Message>) -> Time {
        if time == INFINITY {
            out.extend(self.sealed.drain(..).map(|chunk| Message::Batch(chunk.whole())));
        }
        self.sealed.front().map_or(time, |chunk| chunk.sync[0].min(time))
    }
}

impl Chunk {
    #[inline(always)]
    fn has(&self, row: SnapshotId) -> bool {
        row >= self.first && row - self.first < self.ends.len() as SnapshotId
    }

    fn batch(&self, ends: Vec<Time>) -> Batch {
        Batch::new(self.sync.clone(), Other::Column(ends.into()), self.rows.clone())
    }

    /// All rows of the chunk; those without an end are start edges.
    fn whole(mut self) -> Batch {
        let ends = std::mem::take(&mut self.ends);
        self.batch(ends)
    }
}
