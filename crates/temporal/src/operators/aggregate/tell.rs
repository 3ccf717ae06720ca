//! How snapshots are told: as edges, at once; or as whole intervals, in the order of their starts, once they are over.
//!
//! Edges are for whoever goes on computing: a snapshot is known when it begins. Whoever only reads the result of a query
//! that ends wants intervals; telling them here costs one row a snapshot instead of two, and nobody has to find the
//! start that an end belongs to.
//!
//! Invariants of intervals: rows are numbered in the order of their starts; all rows of `sealed` come before those of
//! `emit`; the first sealed chunk still has a row whose end is not known, or it would have left.

use super::calls::Plan;
use super::emit::{Emit, Snapshots};
use crate::batch::{Batch, Message, Other};
use crate::checkpoint::SavedBatch;
use crate::operator::{decode, encode};
use crate::time::{INFINITY, Time};
use arrow::array::RecordBatch;
use arrow::buffer::ScalarBuffer;
use datafusion::common::Result;
use std::collections::VecDeque;

/// A snapshot that has begun to be told; what it is, only [`Tell`] knows.
pub(super) type Ticket = i64;

/// No snapshot is told. (A start is never at the end of time, nor are there so many rows.)
pub(super) const UNTOLD: Ticket = INFINITY;

/// The tickets of some snapshots, in their order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tickets {
    first: Ticket,
    step: Ticket,
}

impl Tickets {
    #[inline(always)]
    pub fn nth(self, snapshot: usize) -> Ticket {
        self.first + self.step * snapshot as Ticket
    }
}

/// See the module.
#[derive(Debug)]
pub(super) enum Tell {
    /// A ticket is the start of the snapshot.
    Edges(Emit),
    /// A ticket is the number of the row.
    Intervals(Intervals),
}

/// Rows that wait for their ends, or for an earlier row's.
#[derive(Debug)]
pub(super) struct Intervals {
    emit: Emit,
    sealed: VecDeque<Chunk>,
    /// The number of the first row in `emit`.
    next: Ticket,
    /// How many rows in `emit` have no end.
    open: usize,
}

/// Rows whose columns are complete, but for the ends.
#[derive(Debug)]
struct Chunk {
    first: Ticket,
    open: usize,
    sync: ScalarBuffer<i64>,
    ends: Vec<Time>,
    rows: RecordBatch,
}

impl Tell {
    pub fn edges(plan: &Plan) -> Tell {
        Tell::Edges(Emit::new(plan, None))
    }

    pub fn intervals(plan: &Plan) -> Tell {
        let emit = Emit::new(plan, None);
        Tell::Intervals(Intervals { emit, sealed: VecDeque::new(), next: 0, open: 0 })
    }

    /// The tickets of the snapshots that begin next, at `now`.
    pub fn tickets(&mut self, now: Time) -> Tickets {
        match self {
            Tell::Edges(_) => Tickets { first: now, step: 0 },
            Tell::Intervals(waiting) => {
                Tickets { first: waiting.next + waiting.emit.others().len() as Ticket, step: 1 }
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
            Tell::Edges(emit) => emit.rows(now, of),
            Tell::Intervals(waiting) => {
                waiting.open += begun;
                waiting.emit.rows(now, of)
            }
        };
        others.resize(others.len() + begun, INFINITY);
    }

    /// The snapshots with these tickets end; they are still as they were told.
    pub fn end(&mut self, now: Time, of: Snapshots, tickets: &[Ticket]) {
        if tickets.is_empty() {
            return;
        }
        match self {
            Tell::Edges(emit) => emit.rows(now, of).extend(tickets),
            Tell::Intervals(waiting) => waiting.end(tickets, now),
        }
    }

    /// Hands out what is known, if it is much.
    pub fn flush_full(&mut self, out: &mut Vec<Message>) -> Result<()> {
        match self {
            Tell::Edges(emit) => emit.flush_full(out),
            Tell::Intervals(waiting) if waiting.emit.is_full() => waiting.flush(out),
            Tell::Intervals(_) => Ok(()),
        }
    }

    /// Hands out what is known.
    pub fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        match self {
            Tell::Edges(emit) => emit.flush(out),
            Tell::Intervals(waiting) => waiting.flush(out),
        }
    }

    /// Hands on the news that time has come to `time`; at the end of time, with all that still waits before it.
    pub fn punctuation(&mut self, time: Time, out: &mut Vec<Message>) -> Result<()> {
        self.flush(out)?;
        let time = match self {
            Tell::Edges(_) => time,
            Tell::Intervals(waiting) => waiting.horizon(time, out),
        };
        out.push(Message::Punctuation(time));
        Ok(())
    }

    pub fn save(&self) -> Result<Vec<u8>> {
        let Tell::Intervals(waiting) = self else { return Ok(Vec::new()) };
        let chunk = |c: &Chunk| Ok((c.first, c.open, SavedBatch::of(&c.batch(c.ends.clone()))?));
        let sealed =
            waiting.sealed.iter().map(chunk).collect::<Result<Vec<(Ticket, usize, SavedBatch)>>>()?;
        encode(&(waiting.next, sealed))
    }

    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let Tell::Intervals(waiting) = self else { return Ok(()) };
        let sealed: Vec<(Ticket, usize, SavedBatch)>;
        (waiting.next, sealed) = decode(bytes)?;
        for (first, open, saved) in sealed {
            let batch = saved.batch()?;
            let ends = batch.other_column().to_vec();
            waiting.sealed.push_back(Chunk { first, open, sync: batch.sync, ends, rows: batch.rows });
        }
        Ok(())
    }
}

impl Intervals {
    fn end(&mut self, tickets: &[Ticket], now: Time) {
        // What ends together has often begun together.
        let mut near = 0;
        for &row in tickets {
            if row >= self.next {
                self.emit.others()[(row - self.next) as usize] = now;
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

    /// Seals what was told since the last time, and lets go of the chunks that are over.
    fn flush(&mut self, out: &mut Vec<Message>) -> Result<()> {
        if let Some((sync, ends, rows)) = self.emit.take()? {
            let (first, open) = (self.next, std::mem::take(&mut self.open));
            self.next += ends.len() as Ticket;
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
    fn has(&self, row: Ticket) -> bool {
        row >= self.first && row - self.first < self.ends.len() as Ticket
    }

    fn batch(&self, ends: Vec<Time>) -> Batch {
        Batch::new(self.sync.clone(), Other::Column(ends.into()), self.rows.clone())
    }

    fn whole(mut self) -> Batch {
        let ends = std::mem::take(&mut self.ends);
        self.batch(ends)
    }
}
